import hashlib
import hmac
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ.get("WEBHOOK_SECRET", "").encode()
if not SECRET:
    sys.exit("WEBHOOK_SECRET is not set: it is the signing secret of the endpoint")
PORT = int(os.environ.get("PORT", "4000"))
# In a database use a unique column, in the transaction that does the work.
seen = set()
lock = threading.Lock()


def is_genuine(body: bytes, signature: str, timestamp: str) -> bool:
    """Whether the signature is valid and at most five minutes old. body: the raw bytes."""
    if not (timestamp.isascii() and timestamp.isdigit()) or abs(time.time() - int(timestamp)) > 300:
        return False
    wanted = "sha256=" + hmac.new(SECRET, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(signature.encode(), wanted.encode())


def handle(event: dict) -> None:
    """Processes an event once. Here: reminds a customer whose next payment will fail."""
    print(event["type"], event["id"], flush=True)
    data = event["data"]
    if event["type"] == "renewal_upcoming" and not data["canPay"]:
        print("remind", data["externalId"], data["issue"], flush=True)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if not is_genuine(body, self.headers.get("X-Service-Signature", ""), self.headers.get("X-Service-Timestamp", "")):
            self.send_response(401)
            self.end_headers()
            return
        event = json.loads(body)
        with lock:
            if event["id"] not in seen:
                seen.add(event["id"])
                handle(event)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


try:
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Receiver)
except OSError as error:
    sys.exit(f"cannot listen on port {PORT}: {error.strerror}")
print("listening on", server.server_port, flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    sys.exit(130)
