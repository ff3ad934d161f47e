package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

var secret = os.Getenv("WEBHOOK_SECRET")

// In a database use a unique column, in the transaction that does the work.
var seen sync.Map

// isGenuine reports whether the signature is valid and at most five minutes old. body: the raw bytes.
func isGenuine(body []byte, signature, timestamp string) bool {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return false
	}
	if age := time.Now().Unix() - seconds; age > 300 || age < -300 {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	wanted := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	return hmac.Equal([]byte(signature), []byte(wanted))
}

type event struct {
	ID, Type string
	Data     struct {
		ExternalID, Issue string
		CanPay            bool
	}
}

// handle processes an event once. Here: it reminds a customer whose next payment will fail.
func handle(event event) {
	fmt.Println(event.Type, event.ID)
	if event.Type == "renewal_upcoming" && !event.Data.CanPay {
		fmt.Println("remind", event.Data.ExternalID, event.Data.Issue)
	}
}

func receive(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, 1<<20))
	if err != nil {
		response.WriteHeader(http.StatusBadRequest)
		return
	}
	if !isGenuine(body, request.Header.Get("X-Service-Signature"), request.Header.Get("X-Service-Timestamp")) {
		response.WriteHeader(http.StatusUnauthorized)
		return
	}
	var received event
	if err := json.Unmarshal(body, &received); err != nil {
		response.WriteHeader(http.StatusBadRequest)
		return
	}
	if _, known := seen.LoadOrStore(received.ID, true); !known {
		handle(received)
	}
	response.WriteHeader(http.StatusNoContent)
}

func main() {
	log.SetFlags(0)
	if secret == "" {
		log.Fatal("WEBHOOK_SECRET is not set: it is the signing secret of the endpoint")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, http.HandlerFunc(receive)))
}
