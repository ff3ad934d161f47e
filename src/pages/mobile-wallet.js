// @solana-mobile/wallet-standard-mobile 0.6.0 (Apache-2.0) and what it imports, bundled by
// scripts/mobile-wallet.ts without the parts that it lists. Do not edit.
// node_modules/@solana/errors/dist/index.browser.mjs
var SOLANA_ERROR__CODECS__INVALID_STRING_FOR_BASE = 8078012;
function encodeValue(value) {
  return Array.isArray(value) ? "%5B" + value.map(encodeValue).join(
    "%2C%20"
    /* ", " */
  ) + /* "]" */
  "%5D" : typeof value == "bigint" ? `${value}n` : encodeURIComponent(
    String(
      value != null && Object.getPrototypeOf(value) === null ? (
        // Plain objects with no prototype don't have a `toString` method.
        // Convert them before stringifying them.
        { ...value }
      ) : value
    )
  );
}
function encodeObjectContextEntry([key, value]) {
  return `${key}=${encodeValue(value)}`;
}
function encodeContextObject(context) {
  let searchParamsString = Object.entries(context).map(encodeObjectContextEntry).join("&");
  return btoa(searchParamsString);
}
function getErrorMessage(code, context = {}) {
  {
    let decodingAdviceMessage = `Solana error #${code}; Decode this error by running \`npx @solana/errors decode -- ${code}`;
    return Object.keys(context).length && (decodingAdviceMessage += ` '${encodeContextObject(context)}'`), `${decodingAdviceMessage}\``;
  }
}
var SolanaError = class extends Error {
  /**
   * Indicates the root cause of this {@link SolanaError}, if any.
   *
   * For example, a transaction error might have an instruction error as its root cause. In this
   * case, you will be able to access the instruction error on the transaction error as `cause`.
   */
  cause = this.cause;
  /**
   * Contains context that can assist in understanding or recovering from a {@link SolanaError}.
   */
  context;
  constructor(...[code, contextAndErrorOptions]) {
    let context, errorOptions;
    contextAndErrorOptions && Object.entries(Object.getOwnPropertyDescriptors(contextAndErrorOptions)).forEach(([name, descriptor]) => {
      name === "cause" ? errorOptions = { cause: descriptor.value } : (context === void 0 && (context = {
        __code: code
      }), Object.defineProperty(context, name, descriptor));
    });
    let message = getErrorMessage(code, context);
    super(message, errorOptions), this.context = Object.freeze(
      context === void 0 ? {
        __code: code
      } : context
    ), this.name = "SolanaError";
  }
};

// node_modules/@solana/codecs-core/dist/index.browser.mjs
function getEncodedSize(value, encoder) {
  return "fixedSize" in encoder ? encoder.fixedSize : encoder.getSizeFromValue(value);
}
function createEncoder(encoder) {
  return Object.freeze({
    ...encoder,
    encode: (value) => {
      let bytes = new Uint8Array(getEncodedSize(value, encoder));
      return encoder.write(value, bytes, 0), bytes;
    }
  });
}
function createDecoder(decoder) {
  return Object.freeze({
    ...decoder,
    decode: (bytes, offset = 0) => decoder.read(bytes, offset)[0]
  });
}

// node_modules/@solana/kit/dist/index.browser.mjs
var getBaseXDecoder = (alphabet4) => createDecoder({
  read(rawBytes, offset) {
    let bytes = offset === 0 || offset <= -rawBytes.byteLength ? rawBytes : rawBytes.slice(offset);
    if (bytes.length === 0) return ["", rawBytes.length];
    let trailIndex = bytes.findIndex((n) => n !== 0);
    trailIndex = trailIndex === -1 ? bytes.length : trailIndex;
    let leadingZeroes = alphabet4[0].repeat(trailIndex);
    if (trailIndex === bytes.length) return [leadingZeroes, rawBytes.length];
    let base10Number = bytes.slice(trailIndex).reduce((sum, byte) => sum * 256n + BigInt(byte), 0n), tailChars = getBaseXFromBigInt(base10Number, alphabet4);
    return [leadingZeroes + tailChars, rawBytes.length];
  }
});
function getBaseXFromBigInt(value, alphabet4) {
  let base = BigInt(alphabet4.length), tailChars = [];
  for (; value > 0n; )
    tailChars.unshift(alphabet4[Number(value % base)]), value /= base;
  return tailChars.join("");
}
var alphabet2 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
var getBase58Decoder = () => getBaseXDecoder(alphabet2);
var alphabet3 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", getBase64Encoder = () => createEncoder({
  getSizeFromValue: (value) => {
    try {
      return atob(value).length;
    } catch {
      throw new SolanaError(SOLANA_ERROR__CODECS__INVALID_STRING_FOR_BASE, {
        alphabet: alphabet3,
        base: 64,
        value
      });
    }
  },
  write(value, bytes, offset) {
    try {
      let bytesToAdd = atob(value).split("").map((c) => c.charCodeAt(0));
      return bytes.set(bytesToAdd, offset), bytesToAdd.length + offset;
    } catch {
      throw new SolanaError(SOLANA_ERROR__CODECS__INVALID_STRING_FOR_BASE, {
        alphabet: alphabet3,
        base: 64,
        value
      });
    }
  }
}), getBase64Decoder = () => createDecoder({
  read(bytes, offset = 0) {
    let slice = bytes.slice(offset);
    return [btoa(String.fromCharCode(...slice)), bytes.length];
  }
});
var removeNullCharacters = (value) => (
  // eslint-disable-next-line no-control-regex
  value.replace(/\u0000/g, "")
);
var e = globalThis.TextDecoder, o = globalThis.TextEncoder, getUtf8Encoder = () => {
  let textEncoder;
  return createEncoder({
    getSizeFromValue: (value) => (textEncoder ||= new o()).encode(value).length,
    write: (value, bytes, offset) => {
      let bytesToAdd = (textEncoder ||= new o()).encode(value);
      return bytes.set(bytesToAdd, offset), offset + bytesToAdd.length;
    }
  });
}, getUtf8Decoder = () => {
  let textDecoder;
  return createDecoder({
    read(bytes, offset) {
      let value = (textDecoder ||= new e()).decode(bytes.slice(offset));
      return [removeNullCharacters(value), bytes.length];
    }
  });
};

// node_modules/@solana-mobile/mobile-wallet-adapter-protocol/lib/esm/chunks/encoding.js
function encode(input) {
  return getBase64Decoder().decode(getUtf8Encoder().encode(input));
}
function fromUint8Array$1(byteArray, urlsafe) {
  let base64 = getBase64Decoder().decode(byteArray);
  return urlsafe ? base64.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "") : base64;
}
function toUint8Array$1(base64EncodedByteArray) {
  return getBase64Encoder().encode(base64EncodedByteArray);
}
function fromUint8Array(byteArray) {
  return getBase58Decoder().decode(byteArray);
}
function base64ToBase58$1(base64EncodedString) {
  return fromUint8Array(toUint8Array$1(base64EncodedString));
}
function arrayBufferToBase64String(buffer) {
  return fromUint8Array$1(new Uint8Array(buffer));
}
function base58FromUint8Array(byteArray) {
  return fromUint8Array(byteArray);
}
function base64FromUint8Array(byteArray) {
  return fromUint8Array$1(byteArray);
}
function base64ToUint8Array(base64EncodedByteArray) {
  return toUint8Array$1(base64EncodedByteArray);
}
function utf8FromUint8Array(byteArray) {
  return getUtf8Decoder().decode(byteArray);
}
function utf8ToUint8Array(input) {
  return getUtf8Encoder().encode(input);
}

// node_modules/@noble/hashes/_u64.js
var fromNumH = (n) => n / 2 ** 32 | 0, fromNumL = (n) => n >>> 0;
function setU64FromNum(view, byteOffset, n, isLE) {
  let h = fromNumH(n), l = fromNumL(n);
  view.setUint32(byteOffset, isLE ? l : h, isLE), view.setUint32(byteOffset + 4, isLE ? h : l, isLE);
}

// node_modules/@noble/hashes/utils.js
function isBytes(a) {
  return a instanceof Uint8Array || ArrayBuffer.isView(a) && a.constructor.name === "Uint8Array" && "BYTES_PER_ELEMENT" in a && a.BYTES_PER_ELEMENT === 1;
}
var atitle = (title) => title ? `"${title}" ` : "";
function anumber(n, title = "") {
  if (typeof n != "number")
    throw new TypeError(atitle(title) + "expected number, got " + typeof n);
  if (!Number.isSafeInteger(n) || n < 0)
    throw new RangeError(atitle(title) + "expected integer >= 0, got " + n);
  return n;
}
function abytes(value, length, title = "") {
  if (isBytes(value) && (length === void 0 || value.length === length))
    return value;
  length !== void 0 && anumber(length, "length");
  let bytes = isBytes(value), ofLen = length !== void 0 ? ` of length ${length}` : "", got = bytes ? `length=${value.length}` : `type=${typeof value}`, message = atitle(title) + "expected Uint8Array" + ofLen + ", got " + got;
  throw bytes ? new RangeError(message) : new TypeError(message);
}
var aobject = (value, label) => {
  if (value === null || typeof value != "object" || Array.isArray(value))
    throw new TypeError((label === "object" ? "" : `"${label}" `) + "expected object, got type=" + typeof value);
}, aopts = (value, label) => {
  aobject(value, label);
  let proto = Object.getPrototypeOf(value);
  if (proto !== Object.prototype && proto !== null)
    throw new TypeError(`"${label}" expected plain object`);
  if (Object.hasOwn(value, "__proto__"))
    throw new TypeError(`"${label}.__proto__" is not allowed`);
};
function aexists(instance, checkFinished = !0) {
  if (instance.destroyed)
    throw new Error("hash was destroyed");
  if (checkFinished && instance.finished)
    throw new Error("digest() was already called");
}
function aoutput(out, instance) {
  abytes(out, void 0, "output");
  let min = instance.outputLen;
  if (!(out.length >= min))
    throw new RangeError('"output" expected length >= ' + min);
}
function clean(...arrays) {
  for (let i = 0; i < arrays.length; i++)
    arrays[i].fill(0);
}
function createView(arr) {
  return new DataView(arr.buffer, arr.byteOffset, arr.byteLength);
}
function rotr(word, shift) {
  return word << 32 - shift | word >>> shift;
}
var hasHexBuiltin = /* @ts-ignore */ typeof Uint8Array.from([]).toHex == "function" && typeof Uint8Array.fromHex == "function", hexes = /* @__PURE__ */ Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, "0"));
function bytesToHex(bytes) {
  if (abytes(bytes), hasHexBuiltin)
    return bytes.toHex();
  let hex = "";
  for (let i = 0; i < bytes.length; i++)
    hex += hexes[bytes[i]];
  return hex;
}
function asciiToBase16(ch) {
  return ch >= 48 && ch <= 57 ? ch - 48 : ch >= 65 && ch <= 70 ? ch - 55 : ch >= 97 && ch <= 102 ? ch - 87 : void 0;
}
function hexToBytes(hex) {
  if (typeof hex != "string")
    throw new TypeError("hex string expected, got " + typeof hex);
  if (hasHexBuiltin)
    try {
      return Uint8Array.fromHex(hex);
    } catch (error) {
      throw error instanceof SyntaxError ? new RangeError(error.message) : error;
    }
  let hl = hex.length, al = hl / 2;
  if (hl % 2)
    throw new RangeError("hex string expected, got unpadded hex of length " + hl);
  let array = new Uint8Array(al);
  for (let ai = 0, hi = 0; ai < al; ai++, hi += 2) {
    let n1 = asciiToBase16(hex.charCodeAt(hi)), n2 = asciiToBase16(hex.charCodeAt(hi + 1));
    if (n1 === void 0 || n2 === void 0) {
      let char = hex[hi] + hex[hi + 1];
      throw new RangeError('hex string expected, got non-hex character "' + char + '" at index ' + hi);
    }
    array[ai] = n1 * 16 + n2;
  }
  return array;
}
function checkOpts(defaults, opts, title = "opts") {
  return aopts(defaults, "defaults"), opts !== void 0 && aopts(opts, title), Object.assign(/* @__PURE__ */ Object.create(null), defaults, opts);
}
function createHasher(hashCons, info = {}) {
  if (typeof hashCons != "function")
    throw new TypeError('"hashCons" expected function, got type=' + typeof hashCons);
  info = checkOpts({}, info, "info");
  let hashC = (msg, opts) => hashCons(opts).update(msg).digest(), tmp = hashCons(void 0);
  return hashC.outputLen = tmp.outputLen, hashC.blockLen = tmp.blockLen, hashC.canXOF = tmp.canXOF, hashC.create = (opts) => hashCons(opts), Object.assign(hashC, info), Object.freeze(hashC);
}
var oidNist = (suffix) => ({
  // Current NIST hashAlgs suffixes used here fit in one DER subidentifier octet.
  // Larger suffix values would need base-128 OID encoding and a different length byte.
  oid: Uint8Array.from([6, 9, 96, 134, 72, 1, 101, 3, 4, 2, suffix])
});

// node_modules/@noble/hashes/_md.js
function Chi(a, b, c) {
  return a & b ^ ~a & c;
}
function Maj(a, b, c) {
  return a & b ^ a & c ^ b & c;
}
var HashMD = class {
  blockLen;
  outputLen;
  canXOF = !1;
  padOffset;
  isLE;
  // For partial updates less than block size
  buffer;
  view;
  finished = !1;
  length = 0;
  pos = 0;
  destroyed = !1;
  constructor(blockLen, outputLen, padOffset, isLE) {
    this.blockLen = blockLen, this.outputLen = outputLen, this.padOffset = padOffset, this.isLE = isLE, this.buffer = new Uint8Array(blockLen), this.view = createView(this.buffer);
  }
  update(data) {
    aexists(this), abytes(data);
    let { view, buffer, blockLen } = this, len = data.length, processed = !1;
    for (let pos = 0; pos < len; ) {
      let take = Math.min(blockLen - this.pos, len - pos);
      if (take === blockLen) {
        let dataView = createView(data);
        for (; blockLen <= len - pos; pos += blockLen)
          this.process(dataView, pos);
        processed = !0;
        continue;
      }
      buffer.set(pos === 0 && take === len ? data : data.subarray(pos, pos + take), this.pos), this.pos += take, pos += take, this.pos === blockLen && (this.process(view, 0), this.pos = 0, processed = !0);
    }
    return this.length += data.length, processed && this.roundClean(), this;
  }
  digestInto(out) {
    aexists(this), aoutput(out, this), this.finished = !0;
    let { buffer, view, blockLen, isLE } = this, { pos } = this;
    buffer[pos++] = 128, buffer.fill(0, pos), this.padOffset > blockLen - pos && (this.process(view, 0), buffer.fill(0)), setU64FromNum(view, blockLen - 8, this.length * 8, isLE), this.process(view, 0), this.roundClean();
    let oview = out === buffer ? view : createView(out), len = this.outputLen, outLen = len / 4, state = this.get();
    if (len % 4 || outLen > state.length)
      throw new Error("invalid outputLen");
    for (let i = 0; i < outLen; i++)
      oview.setUint32(4 * i, state[i], isLE);
  }
  digest() {
    let { buffer, outputLen } = this;
    this.digestInto(buffer);
    let res = buffer.slice(0, outputLen);
    return this.destroy(), res;
  }
  _cloneIntoMeta(to) {
    let { buffer, length, finished, destroyed, pos } = this;
    return to.destroyed = destroyed, to.finished = finished, to.length = length, to.pos = pos, pos && to.buffer.set(buffer), to;
  }
  clone() {
    return this._cloneInto();
  }
}, SHA256_IV = /* @__PURE__ */ Uint32Array.from([
  1779033703,
  3144134277,
  1013904242,
  2773480762,
  1359893119,
  2600822924,
  528734635,
  1541459225
]);

// node_modules/@noble/hashes/sha2.js
var SHA256_K = /* @__PURE__ */ Uint32Array.from([
  1116352408,
  1899447441,
  3049323471,
  3921009573,
  961987163,
  1508970993,
  2453635748,
  2870763221,
  3624381080,
  310598401,
  607225278,
  1426881987,
  1925078388,
  2162078206,
  2614888103,
  3248222580,
  3835390401,
  4022224774,
  264347078,
  604807628,
  770255983,
  1249150122,
  1555081692,
  1996064986,
  2554220882,
  2821834349,
  2952996808,
  3210313671,
  3336571891,
  3584528711,
  113926993,
  338241895,
  666307205,
  773529912,
  1294757372,
  1396182291,
  1695183700,
  1986661051,
  2177026350,
  2456956037,
  2730485921,
  2820302411,
  3259730800,
  3345764771,
  3516065817,
  3600352804,
  4094571909,
  275423344,
  430227734,
  506948616,
  659060556,
  883997877,
  958139571,
  1322822218,
  1537002063,
  1747873779,
  1955562222,
  2024104815,
  2227730452,
  2361852424,
  2428436474,
  2756734187,
  3204031479,
  3329325298
]), SHA256_W = /* @__PURE__ */ new Uint32Array(64), SHA2_32B = class extends HashMD {
  // We cannot use array here since array allows indexing by variable
  // which means optimizer/compiler cannot use registers.
  // Numeric initializers matter: starting the fields as `undefined` changes
  // V8's field representation and makes sha256 3x slower (measured).
  A = 0;
  B = 0;
  C = 0;
  D = 0;
  E = 0;
  F = 0;
  G = 0;
  H = 0;
  constructor(outputLen, IV) {
    super(64, outputLen, 8, !1), this.A = IV[0] | 0, this.B = IV[1] | 0, this.C = IV[2] | 0, this.D = IV[3] | 0, this.E = IV[4] | 0, this.F = IV[5] | 0, this.G = IV[6] | 0, this.H = IV[7] | 0;
  }
  get() {
    let { A, B, C, D, E, F, G, H } = this;
    return [A, B, C, D, E, F, G, H];
  }
  // prettier-ignore
  set(A, B, C, D, E, F, G, H) {
    this.A = A | 0, this.B = B | 0, this.C = C | 0, this.D = D | 0, this.E = E | 0, this.F = F | 0, this.G = G | 0, this.H = H | 0;
  }
  _cloneInto(to) {
    return (to ||= new this.constructor()).set(...this.get()), this._cloneIntoMeta(to);
  }
  process(view, offset) {
    for (let i = 0; i < 16; i++, offset += 4)
      SHA256_W[i] = view.getUint32(offset, !1);
    for (let i = 16; i < 64; i++) {
      let W15 = SHA256_W[i - 15], W2 = SHA256_W[i - 2], s0 = rotr(W15, 7) ^ rotr(W15, 18) ^ W15 >>> 3, s1 = rotr(W2, 17) ^ rotr(W2, 19) ^ W2 >>> 10;
      SHA256_W[i] = s1 + SHA256_W[i - 7] + s0 + SHA256_W[i - 16] | 0;
    }
    let { A, B, C, D, E, F, G, H } = this;
    for (let i = 0; i < 64; i++) {
      let sigma1 = rotr(E, 6) ^ rotr(E, 11) ^ rotr(E, 25), T1 = H + sigma1 + Chi(E, F, G) + SHA256_K[i] + SHA256_W[i] | 0, T2 = (rotr(A, 2) ^ rotr(A, 13) ^ rotr(A, 22)) + Maj(A, B, C) | 0;
      H = G, G = F, F = E, E = D + T1 | 0, D = C, C = B, B = A, A = T1 + T2 | 0;
    }
    A = A + this.A | 0, B = B + this.B | 0, C = C + this.C | 0, D = D + this.D | 0, E = E + this.E | 0, F = F + this.F | 0, G = G + this.G | 0, H = H + this.H | 0, this.set(A, B, C, D, E, F, G, H);
  }
  roundClean() {
    clean(SHA256_W);
  }
  destroy() {
    this.destroyed = !0, this.set(0, 0, 0, 0, 0, 0, 0, 0), clean(this.buffer);
  }
}, _SHA256 = class extends SHA2_32B {
  constructor() {
    super(32, SHA256_IV);
  }
};
var sha256 = /* @__PURE__ */ createHasher(
  () => new _SHA256(),
  /* @__PURE__ */ oidNist(1)
);

// node_modules/@solana/wallet-standard-util/lib/esm/signIn.js
var DOMAIN = "(?<domain>[^\\n]+?) wants you to sign in with your Solana account:\\n", ADDRESS = "(?<address>[^\\n]+)(?:\\n|$)", STATEMENT = "(?:\\n(?<statement>[\\S\\s]*?)(?:\\n|$))??", URI = "(?:\\nURI: (?<uri>[^\\n]+))?", VERSION = "(?:\\nVersion: (?<version>[^\\n]+))?", CHAIN_ID = "(?:\\nChain ID: (?<chainId>[^\\n]+))?", NONCE = "(?:\\nNonce: (?<nonce>[^\\n]+))?", ISSUED_AT = "(?:\\nIssued At: (?<issuedAt>[^\\n]+))?", EXPIRATION_TIME = "(?:\\nExpiration Time: (?<expirationTime>[^\\n]+))?", NOT_BEFORE = "(?:\\nNot Before: (?<notBefore>[^\\n]+))?", REQUEST_ID = "(?:\\nRequest ID: (?<requestId>[^\\n]+))?", RESOURCES = "(?:\\nResources:(?<resources>(?:\\n- [^\\n]+)*))?", FIELDS = `${URI}${VERSION}${CHAIN_ID}${NONCE}${ISSUED_AT}${EXPIRATION_TIME}${NOT_BEFORE}${REQUEST_ID}${RESOURCES}`, MESSAGE = new RegExp(`^${DOMAIN}${ADDRESS}${STATEMENT}${FIELDS}\\n*$`);
function createSignInMessageText(input) {
  let message = `${input.domain} wants you to sign in with your Solana account:
`;
  message += `${input.address}`, input.statement && (message += `

${input.statement}`);
  let fields = [];
  if (input.uri && fields.push(`URI: ${input.uri}`), input.version && fields.push(`Version: ${input.version}`), input.chainId && fields.push(`Chain ID: ${input.chainId}`), input.nonce && fields.push(`Nonce: ${input.nonce}`), input.issuedAt && fields.push(`Issued At: ${input.issuedAt}`), input.expirationTime && fields.push(`Expiration Time: ${input.expirationTime}`), input.notBefore && fields.push(`Not Before: ${input.notBefore}`), input.requestId && fields.push(`Request ID: ${input.requestId}`), input.resources) {
    fields.push("Resources:");
    for (let resource of input.resources)
      fields.push(`- ${resource}`);
  }
  return fields.length && (message += `

${fields.join(`
`)}`), message;
}

// node_modules/@solana-mobile/mobile-wallet-adapter-protocol/lib/esm/index.browser.js
var SolanaMobileWalletAdapterErrorCode = {
  ERROR_ASSOCIATION_PORT_OUT_OF_RANGE: "ERROR_ASSOCIATION_PORT_OUT_OF_RANGE",
  ERROR_REFLECTOR_ID_OUT_OF_RANGE: "ERROR_REFLECTOR_ID_OUT_OF_RANGE",
  ERROR_FORBIDDEN_WALLET_BASE_URL: "ERROR_FORBIDDEN_WALLET_BASE_URL",
  ERROR_SECURE_CONTEXT_REQUIRED: "ERROR_SECURE_CONTEXT_REQUIRED",
  ERROR_SESSION_CLOSED: "ERROR_SESSION_CLOSED",
  ERROR_SESSION_TIMEOUT: "ERROR_SESSION_TIMEOUT",
  ERROR_WALLET_NOT_FOUND: "ERROR_WALLET_NOT_FOUND",
  ERROR_INVALID_PROTOCOL_VERSION: "ERROR_INVALID_PROTOCOL_VERSION",
  ERROR_BROWSER_NOT_SUPPORTED: "ERROR_BROWSER_NOT_SUPPORTED",
  ERROR_LOOPBACK_ACCESS_BLOCKED: "ERROR_LOOPBACK_ACCESS_BLOCKED",
  ERROR_ASSOCIATION_CANCELLED: "ERROR_ASSOCIATION_CANCELLED",
  ERROR_ILLEGAL_TRANSPORT_STATE: "ERROR_ILLEGAL_TRANSPORT_STATE"
}, SolanaMobileWalletAdapterError = class extends Error {
  data;
  code;
  constructor(...args) {
    let [code, message, data] = args;
    super(message), this.code = code, this.data = data, this.name = "SolanaMobileWalletAdapterError";
  }
};
var SolanaMobileWalletAdapterProtocolError = class extends Error {
  data;
  code;
  jsonRpcMessageId;
  constructor(...args) {
    let [jsonRpcMessageId, code, message, data] = args;
    super(message), this.code = code, this.data = data, this.jsonRpcMessageId = jsonRpcMessageId, this.name = "SolanaMobileWalletAdapterProtocolError";
  }
}, NOSTR_EVENT_KIND_MWA = 20012;
function generateNostrKeypair() {
  let privateKey = (void 0).utils.randomSecretKey();
  return {
    privateKey,
    publicKey: bytesToHex((void 0).getPublicKey(privateKey))
  };
}
async function deriveSessionIdentifier(associationPublicKey) {
  let rawKey = await crypto.subtle.exportKey("raw", associationPublicKey), hash = sha256(new Uint8Array(rawKey));
  return bytesToHex(hash);
}
function serializeEvent(pubkey, createdAt, kind, tags, content) {
  return JSON.stringify([
    0,
    pubkey,
    createdAt,
    kind,
    tags,
    content
  ]);
}
function computeEventId(pubkey, createdAt, kind, tags, content) {
  let serialized = serializeEvent(pubkey, createdAt, kind, tags, content);
  return bytesToHex(sha256(new TextEncoder().encode(serialized)));
}
function createNostrEvent(kind, content, tags, privateKey) {
  let pubkey = bytesToHex((void 0).getPublicKey(privateKey)), createdAt = Math.floor(Date.now() / 1e3), id = computeEventId(pubkey, createdAt, kind, tags, content);
  return {
    id,
    pubkey,
    created_at: createdAt,
    kind,
    tags,
    content,
    sig: bytesToHex((void 0).sign(hexToBytes(id), privateKey))
  };
}
function verifyNostrEvent(event) {
  if (computeEventId(event.pubkey, event.created_at, event.kind, event.tags, event.content) !== event.id) return !1;
  try {
    return (void 0).verify(hexToBytes(event.sig), hexToBytes(event.id), hexToBytes(event.pubkey));
  } catch {
    return !1;
  }
}
async function createHelloReq(ecdhPublicKey, associationKeypairPrivateKey) {
  let publicKeyBuffer = await crypto.subtle.exportKey("raw", ecdhPublicKey), signatureBuffer = await crypto.subtle.sign({
    hash: "SHA-256",
    name: "ECDSA"
  }, associationKeypairPrivateKey, publicKeyBuffer), response = new Uint8Array(publicKeyBuffer.byteLength + signatureBuffer.byteLength);
  return response.set(new Uint8Array(publicKeyBuffer), 0), response.set(new Uint8Array(signatureBuffer), publicKeyBuffer.byteLength), response;
}
function createSIWSMessage(payload) {
  return createSignInMessageText(payload);
}
function createSIWSMessageBase64Url(payload) {
  return encode(createSIWSMessage(payload)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}
var SolanaSignTransactions = "solana:signTransactions", SolanaCloneAuthorization = "solana:cloneAuthorization";
function createMobileWalletProxy(protocolVersion, protocolRequestHandler) {
  return new Proxy({}, {
    get(target, p) {
      return p === "then" ? null : (target[p] == null && (target[p] = async function(inputParams) {
        let { method, params } = handleMobileWalletRequest(p, inputParams, protocolVersion), result = await protocolRequestHandler(method, params);
        return method === "authorize" && params.sign_in_payload && !result.sign_in_result && (result.sign_in_result = await signInFallback(params.sign_in_payload, result, protocolRequestHandler)), handleMobileWalletResponse(p, result, protocolVersion);
      }), target[p]);
    },
    defineProperty() {
      return !1;
    },
    deleteProperty() {
      return !1;
    }
  });
}
function handleMobileWalletRequest(methodName, methodParams, protocolVersion) {
  let params = methodParams, method = methodName.toString().replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`).toLowerCase();
  switch (methodName) {
    case "authorize": {
      let authorizeParams = params, { chain } = authorizeParams;
      if (protocolVersion === "legacy") {
        switch (chain) {
          case "solana:testnet":
            chain = "testnet";
            break;
          case "solana:devnet":
            chain = "devnet";
            break;
          case "solana:mainnet":
            chain = "mainnet-beta";
            break;
          default:
            chain = authorizeParams.cluster;
        }
        authorizeParams.cluster = chain, params = authorizeParams;
      } else {
        switch (chain) {
          case "testnet":
          case "devnet":
            chain = `solana:${chain}`;
            break;
          case "mainnet-beta":
            chain = "solana:mainnet";
        }
        authorizeParams.chain = chain, params = authorizeParams;
      }
    }
    case "reauthorize": {
      let { auth_token, identity } = params;
      auth_token && (protocolVersion === "legacy" ? (method = "reauthorize", params = {
        auth_token,
        identity
      }) : method = "authorize");
      break;
    }
  }
  return {
    method,
    params
  };
}
function handleMobileWalletResponse(method, response, protocolVersion) {
  switch (method) {
    case "getCapabilities": {
      let capabilities = response;
      switch (protocolVersion) {
        case "legacy": {
          let features = [SolanaSignTransactions];
          return capabilities.supports_clone_authorization === !0 && features.push(SolanaCloneAuthorization), {
            ...capabilities,
            features
          };
        }
        case "v1":
          return {
            ...capabilities,
            supports_sign_and_send_transactions: !0,
            supports_clone_authorization: capabilities.features.includes(SolanaCloneAuthorization)
          };
      }
    }
  }
  return response;
}
async function signInFallback(signInPayload, authorizationResult, protocolRequestHandler) {
  let domain = signInPayload.domain ?? window.location.host, address = authorizationResult.accounts[0].address, siwsMessage = createSIWSMessageBase64Url({
    ...signInPayload,
    domain,
    address: base64ToBase58$1(address)
  }), signMessageResult = await protocolRequestHandler("sign_messages", {
    addresses: [address],
    payloads: [siwsMessage]
  }), signedPayload = toUint8Array$1(signMessageResult.signed_payloads[0]), signedMessage = fromUint8Array$1(signedPayload.slice(0, signedPayload.length - 64)), signature = fromUint8Array$1(signedPayload.slice(signedPayload.length - 64));
  return {
    address,
    signed_message: signedMessage.length == 0 ? siwsMessage : signedMessage,
    signature
  };
}
function createSequenceNumberVector(sequenceNumber) {
  if (sequenceNumber >= 4294967296) throw new Error("Outbound sequence number overflow. The maximum sequence number is 32-bytes.");
  let byteArray = /* @__PURE__ */ new ArrayBuffer(4);
  return new DataView(byteArray).setUint32(0, sequenceNumber, !1), new Uint8Array(byteArray);
}
var INITIALIZATION_VECTOR_BYTES = 12;
async function encryptMessage(plaintext, sequenceNumber, sharedSecret) {
  let sequenceNumberVector = createSequenceNumberVector(sequenceNumber), initializationVector = new Uint8Array(INITIALIZATION_VECTOR_BYTES);
  crypto.getRandomValues(initializationVector);
  let ciphertext = await crypto.subtle.encrypt(getAlgorithmParams(sequenceNumberVector, initializationVector), sharedSecret, utf8ToUint8Array(plaintext)), response = new Uint8Array(sequenceNumberVector.byteLength + initializationVector.byteLength + ciphertext.byteLength);
  return response.set(new Uint8Array(sequenceNumberVector), 0), response.set(new Uint8Array(initializationVector), sequenceNumberVector.byteLength), response.set(new Uint8Array(ciphertext), sequenceNumberVector.byteLength + initializationVector.byteLength), response;
}
async function decryptMessage(message, sharedSecret) {
  let sequenceNumberVector = message.slice(0, 4), initializationVector = message.slice(4, 16), ciphertext = message.slice(16), plaintextBuffer = await crypto.subtle.decrypt(getAlgorithmParams(sequenceNumberVector, initializationVector), sharedSecret, ciphertext);
  return utf8FromUint8Array(new Uint8Array(plaintextBuffer));
}
function getAlgorithmParams(sequenceNumber, initializationVector) {
  return {
    additionalData: sequenceNumber,
    iv: initializationVector,
    name: "AES-GCM",
    tagLength: 128
  };
}
async function generateAssociationKeypair() {
  return await crypto.subtle.generateKey({
    name: "ECDSA",
    namedCurve: "P-256"
  }, !1, ["sign"]);
}
async function generateECDHKeypair() {
  return await crypto.subtle.generateKey({
    name: "ECDH",
    namedCurve: "P-256"
  }, !1, ["deriveKey", "deriveBits"]);
}
function getRandomAssociationPort() {
  return assertAssociationPort(49152 + Math.floor(Math.random() * 16384));
}
function assertAssociationPort(port) {
  if (port < 49152 || port > 65535) throw new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_ASSOCIATION_PORT_OUT_OF_RANGE, `Association port number must be between 49152 and 65535. ${port} given.`, { port });
  return port;
}
function getStringWithURLUnsafeBase64CharactersReplaced(unsafeBase64EncodedString) {
  return unsafeBase64EncodedString.replace(/[/+=]/g, (m) => ({
    "/": "_",
    "+": "-",
    "=": "."
  })[m]);
}
var INTENT_NAME = "solana-wallet";
function getPathParts(pathString) {
  return pathString.replace(/(^\/+|\/+$)/g, "").split("/");
}
function getIntentURL(methodPathname, intentUrlBase) {
  let baseUrl = null;
  if (intentUrlBase) {
    try {
      baseUrl = new URL(intentUrlBase);
    } catch {
    }
    if (baseUrl?.protocol !== "https:") throw new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_FORBIDDEN_WALLET_BASE_URL, "Base URLs supplied by wallets must be valid `https` URLs");
  }
  baseUrl ||= new URL(`${INTENT_NAME}:/`);
  let pathname = methodPathname.startsWith("/") ? methodPathname : [...getPathParts(baseUrl.pathname), ...getPathParts(methodPathname)].join("/");
  return new URL(pathname, baseUrl);
}
async function getAssociateAndroidIntentURL(associationPublicKey, putativePort, associationURLBase, protocolVersions = ["v1"]) {
  let associationPort = assertAssociationPort(putativePort), exportedKey = await crypto.subtle.exportKey("raw", associationPublicKey), encodedKey = arrayBufferToBase64String(exportedKey), url = getIntentURL("v1/associate/local", associationURLBase);
  return url.searchParams.set("association", getStringWithURLUnsafeBase64CharactersReplaced(encodedKey)), url.searchParams.set("port", `${associationPort}`), protocolVersions.forEach((version) => {
    url.searchParams.set("v", version);
  }), url;
}
async function getNostrAssociateAndroidIntentURL(associationPublicKey, connectionType, relayDomain, dappNostrPubkey, associationURLBase, protocolVersions = ["v1"]) {
  let exportedKey = await crypto.subtle.exportKey("raw", associationPublicKey), encodedKey = arrayBufferToBase64String(exportedKey), url = getIntentURL(`v1/associate/${connectionType}/nostr`, associationURLBase);
  return url.searchParams.set("association", getStringWithURLUnsafeBase64CharactersReplaced(encodedKey)), url.searchParams.set("relay", relayDomain), url.searchParams.set("pubkey", dappNostrPubkey), protocolVersions.forEach((version) => {
    url.searchParams.set("v", version);
  }), url;
}
async function encryptJsonRpcMessage(jsonRpcMessage, sharedSecret) {
  let plaintext = JSON.stringify(jsonRpcMessage), sequenceNumber = jsonRpcMessage.id;
  return encryptMessage(plaintext, sequenceNumber, sharedSecret);
}
async function decryptJsonRpcMessage(message, sharedSecret) {
  let plaintext = await decryptMessage(message, sharedSecret), jsonRpcMessage = JSON.parse(plaintext);
  if (Object.hasOwnProperty.call(jsonRpcMessage, "error")) throw new SolanaMobileWalletAdapterProtocolError(jsonRpcMessage.id, jsonRpcMessage.error.code, jsonRpcMessage.error.message);
  return jsonRpcMessage;
}
async function parseHelloRsp(payloadBuffer, associationPublicKey, ecdhPrivateKey) {
  let [associationPublicKeyBuffer, walletPublicKey] = await Promise.all([crypto.subtle.exportKey("raw", associationPublicKey), crypto.subtle.importKey("raw", payloadBuffer.slice(0, 65), {
    name: "ECDH",
    namedCurve: "P-256"
  }, !1, [])]), sharedSecret = await crypto.subtle.deriveBits({
    name: "ECDH",
    public: walletPublicKey
  }, ecdhPrivateKey, 256), ecdhSecretKey = await crypto.subtle.importKey("raw", sharedSecret, "HKDF", !1, ["deriveKey"]);
  return await crypto.subtle.deriveKey({
    name: "HKDF",
    hash: "SHA-256",
    salt: new Uint8Array(associationPublicKeyBuffer),
    info: /* @__PURE__ */ new Uint8Array()
  }, ecdhSecretKey, {
    name: "AES-GCM",
    length: 128
  }, !1, ["encrypt", "decrypt"]);
}
async function parseSessionProps(message, sharedSecret) {
  let plaintext = await decryptMessage(message, sharedSecret), jsonProperties = JSON.parse(plaintext), protocolVersion = "legacy";
  if (Object.hasOwnProperty.call(jsonProperties, "v")) switch (jsonProperties.v) {
    case 1:
    case "1":
    case "v1":
      protocolVersion = "v1";
      break;
    case "legacy":
      protocolVersion = "legacy";
      break;
    default:
      throw new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_INVALID_PROTOCOL_VERSION, `Unknown/unsupported protocol version: ${jsonProperties.v}`);
  }
  return { protocol_version: protocolVersion };
}
var Browser = {
  Firefox: 0,
  Other: 1
};
function getBrowser() {
  return navigator.userAgent.indexOf("Firefox/") !== -1 ? Browser.Firefox : Browser.Other;
}
function getDetectionPromise() {
  return new Promise((resolve, reject) => {
    function cleanup() {
      clearTimeout(timeoutId), window.removeEventListener("blur", handleBlur);
    }
    function handleBlur() {
      cleanup(), resolve();
    }
    window.addEventListener("blur", handleBlur);
    let timeoutId = setTimeout(() => {
      cleanup(), reject();
    }, 3e3);
  });
}
var _frame = null;
function launchUrlThroughHiddenFrame(url) {
  (_frame == null || !_frame.isConnected) && (_frame = document.createElement("iframe"), _frame.style.display = "none", document.body.appendChild(_frame)), _frame.contentWindow.location.href = url.toString();
}
async function launchAssociation(associationUrl) {
  if (associationUrl.protocol === "https:") window.location.assign(associationUrl);
  else try {
    switch (getBrowser()) {
      case Browser.Firefox:
        launchUrlThroughHiddenFrame(associationUrl);
        break;
      case Browser.Other: {
        let detectionPromise = getDetectionPromise();
        window.location.assign(associationUrl), await detectionPromise;
        break;
      }
    }
  } catch {
    throw new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_WALLET_NOT_FOUND, "Found no installed wallet that supports the mobile wallet protocol.");
  }
}
async function startSession(associationPublicKey, associationURLBase) {
  let randomAssociationPort = getRandomAssociationPort();
  return await launchAssociation(await getAssociateAndroidIntentURL(associationPublicKey, randomAssociationPort, associationURLBase)), randomAssociationPort;
}
async function startNostrSession(associationPublicKey, connectionType, relayDomain, dappNostrPubkey, associationURLBase) {
  let associationUrl = await getNostrAssociateAndroidIntentURL(associationPublicKey, connectionType, relayDomain, dappNostrPubkey, associationURLBase);
  return connectionType == "local" && await launchAssociation(associationUrl), associationUrl;
}
var WEBSOCKET_CONNECTION_CONFIG = {
  /**
  * 300 milliseconds is a generally accepted threshold for what someone
  * would consider an acceptable response time for a user interface
  * after having performed a low-attention tapping task. We set the initial
  * interval at which we wait for the wallet to set up the websocket at
  * half this, as per the Nyquist frequency, with a progressive backoff
  * sequence from there. The total wait time is 30s, which allows for the
  * user to be presented with a disambiguation dialog, select a wallet, and
  * for the wallet app to subsequently start.
  */
  retryDelayScheduleMs: [
    150,
    150,
    200,
    500,
    500,
    750,
    750,
    1e3
  ],
  timeoutMs: 3e4
}, WEBSOCKET_PROTOCOL_BINARY = "com.solana.mobilewalletadapter.v1";
function assertSecureContext() {
  if (typeof window > "u" || window.isSecureContext !== !0) throw new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_SECURE_CONTEXT_REQUIRED, "The mobile wallet adapter protocol must be used in a secure context (`https`).");
}
function assertSecureEndpointSpecificURI(walletUriBase) {
  let url;
  try {
    url = new URL(walletUriBase);
  } catch {
    throw new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_FORBIDDEN_WALLET_BASE_URL, "Invalid base URL supplied by wallet");
  }
  if (url.protocol !== "https:") throw new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_FORBIDDEN_WALLET_BASE_URL, "Base URLs supplied by wallets must be valid `https` URLs");
}
function getSequenceNumberFromByteArray(byteArray) {
  return new DataView(byteArray).getUint32(0, !1);
}
async function startScenario(config) {
  assertSecureContext();
  let associationKeypair = await generateAssociationKeypair(), websocketURL = `ws://localhost:${await startSession(associationKeypair.publicKey, config?.baseUri)}/solana-wallet`, connectionStartTime, getNextRetryDelayMs = (() => {
    let schedule = [...WEBSOCKET_CONNECTION_CONFIG.retryDelayScheduleMs];
    return () => schedule.length > 1 ? schedule.shift() : schedule[0];
  })(), nextJsonRpcMessageId = 1, lastKnownInboundSequenceNumber = 0, state = { __type: "disconnected" }, socket, sessionEstablished = !1, handleForceClose;
  return {
    close: () => {
      socket.close(), handleForceClose();
    },
    wallet: new Promise((resolve, reject) => {
      let jsonRpcResponsePromises = {}, handleOpen = async () => {
        if (state.__type !== "connecting") {
          console.warn(`Expected adapter state to be \`connecting\` at the moment the websocket opens. Got \`${state.__type}\`.`);
          return;
        }
        socket.removeEventListener("open", handleOpen);
        let { associationKeypair: associationKeypair2 } = state, ecdhKeypair = await generateECDHKeypair();
        socket.send(await createHelloReq(ecdhKeypair.publicKey, associationKeypair2.privateKey)), state = {
          __type: "hello_req_sent",
          associationPublicKey: associationKeypair2.publicKey,
          ecdhPrivateKey: ecdhKeypair.privateKey
        };
      }, handleClose = (evt) => {
        evt.wasClean ? state = { __type: "disconnected" } : reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_SESSION_CLOSED, `The wallet session dropped unexpectedly (${evt.code}: ${evt.reason}).`, { closeEvent: evt })), disposeSocket();
      }, handleError = async (_evt) => {
        disposeSocket(), Date.now() - connectionStartTime >= WEBSOCKET_CONNECTION_CONFIG.timeoutMs ? reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_SESSION_TIMEOUT, `Failed to connect to the wallet websocket at ${websocketURL}.`)) : (await new Promise((resolve2) => {
          let retryDelayMs = getNextRetryDelayMs();
          retryWaitTimeoutId = window.setTimeout(resolve2, retryDelayMs);
        }), attemptSocketConnection());
      }, handleMessage = async (evt) => {
        let responseBuffer = await evt.data.arrayBuffer();
        switch (state.__type) {
          case "connecting": {
            if (responseBuffer.byteLength !== 0) {
              reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_ILLEGAL_TRANSPORT_STATE, "Encountered unexpected message while connecting"));
              return;
            }
            let ecdhKeypair = await generateECDHKeypair();
            socket.send(await createHelloReq(ecdhKeypair.publicKey, associationKeypair.privateKey)), state = {
              __type: "hello_req_sent",
              associationPublicKey: associationKeypair.publicKey,
              ecdhPrivateKey: ecdhKeypair.privateKey
            };
            break;
          }
          case "connected":
            try {
              let sequenceNumber = getSequenceNumberFromByteArray(responseBuffer.slice(0, 4));
              if (sequenceNumber !== lastKnownInboundSequenceNumber + 1) throw new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_ILLEGAL_TRANSPORT_STATE, "Encrypted message has invalid sequence number");
              lastKnownInboundSequenceNumber = sequenceNumber;
              let jsonRpcMessage = await decryptJsonRpcMessage(responseBuffer, state.sharedSecret), responsePromise = jsonRpcResponsePromises[jsonRpcMessage.id];
              delete jsonRpcResponsePromises[jsonRpcMessage.id], responsePromise.resolve(jsonRpcMessage.result);
            } catch (e2) {
              if (e2 instanceof SolanaMobileWalletAdapterProtocolError) {
                let responsePromise = jsonRpcResponsePromises[e2.jsonRpcMessageId];
                delete jsonRpcResponsePromises[e2.jsonRpcMessageId], responsePromise.reject(e2);
              } else throw e2;
            }
            break;
          case "hello_req_sent": {
            if (responseBuffer.byteLength === 0) {
              let ecdhKeypair = await generateECDHKeypair();
              socket.send(await createHelloReq(ecdhKeypair.publicKey, associationKeypair.privateKey)), state = {
                __type: "hello_req_sent",
                associationPublicKey: associationKeypair.publicKey,
                ecdhPrivateKey: ecdhKeypair.privateKey
              };
              break;
            }
            let sharedSecret = await parseHelloRsp(responseBuffer, state.associationPublicKey, state.ecdhPrivateKey), sessionPropertiesBuffer = responseBuffer.slice(65), sessionProperties = sessionPropertiesBuffer.byteLength !== 0 ? await (async () => {
              let sequenceNumber = getSequenceNumberFromByteArray(sessionPropertiesBuffer.slice(0, 4));
              return sequenceNumber !== lastKnownInboundSequenceNumber + 1 ? (reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_ILLEGAL_TRANSPORT_STATE, "Encrypted message has invalid sequence number")), socket.close(), { protocol_version: "v1" }) : (lastKnownInboundSequenceNumber = sequenceNumber, parseSessionProps(sessionPropertiesBuffer, sharedSecret));
            })() : { protocol_version: "legacy" };
            state = {
              __type: "connected",
              sharedSecret,
              sessionProperties
            };
            let wallet = createMobileWalletProxy(sessionProperties.protocol_version, async (method, params) => {
              let id = nextJsonRpcMessageId++;
              return socket.send(await encryptJsonRpcMessage({
                id,
                jsonrpc: "2.0",
                method,
                params: params ?? {}
              }, sharedSecret)), new Promise((resolve2, reject2) => {
                jsonRpcResponsePromises[id] = {
                  resolve(result) {
                    switch (method) {
                      case "authorize":
                      case "reauthorize": {
                        let { wallet_uri_base } = result;
                        if (wallet_uri_base != null) try {
                          assertSecureEndpointSpecificURI(wallet_uri_base);
                        } catch (e2) {
                          reject2(e2);
                          return;
                        }
                        break;
                      }
                    }
                    resolve2(result);
                  },
                  reject: reject2
                };
              });
            });
            sessionEstablished = !0;
            try {
              resolve(wallet);
            } catch (e2) {
              reject(e2);
            }
            break;
          }
        }
      };
      handleForceClose = () => {
        socket.removeEventListener("message", handleMessage), disposeSocket(), sessionEstablished || reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_SESSION_CLOSED, "The wallet session was closed before connection.", { closeEvent: new CloseEvent("socket was closed before connection") }));
      };
      let disposeSocket, retryWaitTimeoutId, attemptSocketConnection = () => {
        disposeSocket && disposeSocket(), state = {
          __type: "connecting",
          associationKeypair
        }, connectionStartTime === void 0 && (connectionStartTime = Date.now()), socket = new WebSocket(websocketURL, [WEBSOCKET_PROTOCOL_BINARY]), socket.addEventListener("open", handleOpen), socket.addEventListener("close", handleClose), socket.addEventListener("error", handleError), socket.addEventListener("message", handleMessage), disposeSocket = () => {
          window.clearTimeout(retryWaitTimeoutId), socket.removeEventListener("open", handleOpen), socket.removeEventListener("close", handleClose), socket.removeEventListener("error", handleError), socket.removeEventListener("message", handleMessage);
        };
      };
      attemptSocketConnection();
    })
  };
}
async function startNostrScenario(config) {
  assertSecureContext();
  let associationKeypair = await generateAssociationKeypair(), { privateKey: dappNostrPrivateKey, publicKey: dappNostrPubkey } = generateNostrKeypair(), associationUrl = await startNostrSession(associationKeypair.publicKey, config.connectionType, config.relayDomain, dappNostrPubkey, config.baseUri), sessionIdentifier = await deriveSessionIdentifier(associationKeypair.publicKey), subscriptionId = crypto.randomUUID(), webSocketURL = `wss://${config.relayDomain}`, connectionStartTime = Date.now(), getNextRetryDelayMs = (() => {
    let schedule = [...WEBSOCKET_CONNECTION_CONFIG.retryDelayScheduleMs];
    return () => schedule.length > 1 ? schedule.shift() : schedule[0];
  })(), nextJsonRpcMessageId = 1, lastKnownInboundSequenceNumber = 0, state = { __type: "disconnected" }, socket, sessionEstablished = !1, handleForceClose, sendNostrEvent = (content, walletPubkey) => {
    let event = createNostrEvent(NOSTR_EVENT_KIND_MWA, content, [["d", sessionIdentifier], ["p", walletPubkey]], dappNostrPrivateKey);
    socket.send(JSON.stringify(["EVENT", event]));
  }, doClose = () => {
    if (state.__type == "connected" || state.__type == "hello_req_sent") {
      let event = createNostrEvent(NOSTR_EVENT_KIND_MWA, "", [
        ["d", sessionIdentifier],
        ["p", state.walletNostrPubkey],
        ["msg", "SESSION_END"]
      ], dappNostrPrivateKey);
      socket.send(JSON.stringify(["EVENT", event]));
    }
    socket.close();
  }, scenario = {
    close: () => {
      doClose(), handleForceClose();
    },
    wallet: new Promise((resolve, reject) => {
      let jsonRpcResponsePromises = {}, handleOpen = async () => {
        if (state.__type !== "connecting") {
          console.warn(`Expected adapter state to be \`connecting\` at the moment the websocket opens. Got \`${state.__type}\`.`);
          return;
        }
        socket.removeEventListener("open", handleOpen), socket.send(JSON.stringify([
          "REQ",
          subscriptionId,
          {
            kinds: [NOSTR_EVENT_KIND_MWA],
            "#d": [sessionIdentifier]
          }
        ])), state = {
          __type: "subscribed",
          dappNostrPrivateKey,
          dappNostrPubkey,
          sessionIdentifier
        };
      }, handleClose = (evt) => {
        evt.wasClean ? state = { __type: "disconnected" } : reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_SESSION_CLOSED, `The Nostr subscription dropped unexpectedly (${evt.code}: ${evt.reason}).`, { closeEvent: evt })), disposeSocket();
      }, handleError = async () => {
        disposeSocket(), Date.now() - connectionStartTime >= WEBSOCKET_CONNECTION_CONFIG.timeoutMs ? reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_SESSION_TIMEOUT, `Failed to connect to the Nostr relay at ${config.relayDomain}.`)) : (await new Promise((resolve2) => {
          let retryDelayMs = getNextRetryDelayMs();
          retryWaitTimeoutId = window.setTimeout(resolve2, retryDelayMs);
        }), attemptSocketConnection());
      }, handleMessage = async (evt) => {
        let msg;
        try {
          if (msg = JSON.parse(evt.data), !Array.isArray(msg)) throw new Error();
        } catch {
          reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_ILLEGAL_TRANSPORT_STATE, "Invalid Nostr message received: " + evt.data)), doClose();
          return;
        }
        let type = msg[0];
        if (type === "CLOSED") disposeSocket();
        else if (type === "EVENT") {
          let event = msg[2];
          if (!event || !verifyNostrEvent(event)) return;
          switch (state.__type) {
            case "subscribed": {
              if (event.content.length !== 0) {
                reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_ILLEGAL_TRANSPORT_STATE, "Encountered unexpected message while awaiting reflection")), doClose();
                return;
              }
              let walletNostrPubkey = event.pubkey, ecdhKeypair = await generateECDHKeypair(), helloReq = await createHelloReq(ecdhKeypair.publicKey, associationKeypair.privateKey), base64Content = fromUint8Array$1(helloReq);
              sendNostrEvent(base64Content, walletNostrPubkey), state = {
                __type: "hello_req_sent",
                associationPublicKey: associationKeypair.publicKey,
                ecdhPrivateKey: ecdhKeypair.privateKey,
                walletNostrPubkey
              };
              break;
            }
            case "hello_req_sent": {
              if (event.pubkey !== state.walletNostrPubkey || event.content === "") return;
              let responseBuffer = toUint8Array$1(event.content).buffer, sharedSecret = await parseHelloRsp(responseBuffer, state.associationPublicKey, state.ecdhPrivateKey), sessionPropertiesBuffer = responseBuffer.slice(65), sessionProperties = sessionPropertiesBuffer.byteLength !== 0 ? await (async () => {
                let sequenceNumber = getSequenceNumberFromByteArray(sessionPropertiesBuffer.slice(0, 4));
                return sequenceNumber !== lastKnownInboundSequenceNumber + 1 ? (reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_ILLEGAL_TRANSPORT_STATE, "Encrypted message has invalid sequence number")), doClose(), { protocol_version: "v1" }) : (lastKnownInboundSequenceNumber = sequenceNumber, parseSessionProps(sessionPropertiesBuffer, sharedSecret));
              })() : { protocol_version: "legacy" };
              state = {
                __type: "connected",
                sharedSecret,
                sessionProperties,
                walletNostrPubkey: state.walletNostrPubkey
              };
              let wallet = createMobileWalletProxy(sessionProperties.protocol_version, async (method, params) => {
                let id = nextJsonRpcMessageId++, binaryMsg = await encryptJsonRpcMessage({
                  id,
                  jsonrpc: "2.0",
                  method,
                  params: params ?? {}
                }, sharedSecret);
                return sendNostrEvent(fromUint8Array$1(binaryMsg), state.walletNostrPubkey), new Promise((resolve2, reject2) => {
                  jsonRpcResponsePromises[id] = {
                    resolve(result) {
                      switch (method) {
                        case "authorize":
                        case "reauthorize": {
                          let { wallet_uri_base } = result;
                          if (wallet_uri_base != null) try {
                            assertSecureEndpointSpecificURI(wallet_uri_base);
                          } catch (e2) {
                            reject2(e2);
                            return;
                          }
                          break;
                        }
                      }
                      resolve2(result);
                    },
                    reject: reject2
                  };
                });
              });
              sessionEstablished = !0;
              try {
                resolve(wallet);
              } catch (e2) {
                reject(e2);
              }
              break;
            }
            case "connected":
              if (event.pubkey !== state.walletNostrPubkey || event.content === "") return;
              try {
                let responseBuffer = toUint8Array$1(event.content).buffer, sequenceNumber = getSequenceNumberFromByteArray(responseBuffer.slice(0, 4));
                if (sequenceNumber !== lastKnownInboundSequenceNumber + 1) throw new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_ILLEGAL_TRANSPORT_STATE, "Encrypted message has invalid sequence number");
                lastKnownInboundSequenceNumber = sequenceNumber;
                let jsonRpcMessage = await decryptJsonRpcMessage(responseBuffer, state.sharedSecret), responsePromise = jsonRpcResponsePromises[jsonRpcMessage.id];
                delete jsonRpcResponsePromises[jsonRpcMessage.id], responsePromise.resolve(jsonRpcMessage.result);
              } catch (e2) {
                if (e2 instanceof SolanaMobileWalletAdapterProtocolError) {
                  let responsePromise = jsonRpcResponsePromises[e2.jsonRpcMessageId];
                  delete jsonRpcResponsePromises[e2.jsonRpcMessageId], responsePromise.reject(e2);
                } else throw e2;
              }
          }
        }
      };
      handleForceClose = () => {
        socket.removeEventListener("message", handleMessage), disposeSocket(), sessionEstablished || reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_SESSION_CLOSED, "The wallet session was closed before connection.", { closeEvent: new CloseEvent("socket was closed before connection") }));
      };
      let disposeSocket, retryWaitTimeoutId, attemptSocketConnection = () => {
        disposeSocket && disposeSocket(), state = {
          __type: "connecting",
          associationKeypair
        }, socket = new WebSocket(webSocketURL), socket.addEventListener("open", handleOpen), socket.addEventListener("close", handleClose), socket.addEventListener("error", handleError), socket.addEventListener("message", handleMessage), disposeSocket = () => {
          window.clearTimeout(retryWaitTimeoutId), socket.removeEventListener("open", handleOpen), socket.removeEventListener("close", handleClose), socket.removeEventListener("error", handleError), socket.removeEventListener("message", handleMessage);
        };
      };
      attemptSocketConnection();
    })
  };
  return config.connectionType == "local" ? scenario : {
    ...scenario,
    associationUrl
  };
}

// node_modules/@solana/wallet-standard-features/lib/esm/signAndSendTransaction.js
var SolanaSignAndSendTransaction = "solana:signAndSendTransaction";

// node_modules/@solana/wallet-standard-features/lib/esm/signIn.js
var SolanaSignIn = "solana:signIn";

// node_modules/@solana/wallet-standard-features/lib/esm/signMessage.js
var SolanaSignMessage = "solana:signMessage";

// node_modules/@solana/wallet-standard-features/lib/esm/signTransaction.js
var SolanaSignTransaction = "solana:signTransaction";

// node_modules/@wallet-standard/features/lib/esm/connect.js
var StandardConnect = "standard:connect";

// node_modules/@wallet-standard/features/lib/esm/disconnect.js
var StandardDisconnect = "standard:disconnect";

// node_modules/@wallet-standard/features/lib/esm/events.js
var StandardEvents = "standard:events";

// node_modules/@solana-mobile/wallet-standard-mobile/lib/esm/index.browser.js
var LocalConnectionModal = class {
  constructor() {
    throw new Error("The browser has not allowed the connection.");
  }
}, LoopbackPermissionBlockedModal = class {
  constructor() {
    throw new Error("The browser has not allowed the connection.");
  }
}, LoopbackPermissionModal = class {
  constructor() {
    throw new Error("The browser has not allowed the connection.");
  }
};
function isSolanaMobileWebShell(userAgentString) {
  return userAgentString.includes("Solana Mobile Web Shell");
}
async function isLocalWebSocketAvailable() {
  if (typeof navigator < "u" && isSolanaMobileWebShell(navigator.userAgent)) return !0;
  try {
    return (await navigator.permissions.query({ name: "loopback-network" })).state === "granted";
  } catch (e2) {
    return !!(e2 instanceof TypeError && (e2.message.includes("loopback-network") || e2.message.includes("local-network-access")));
  }
}
async function checkLocalNetworkAccessPermission() {
  if (!(typeof navigator < "u" && isSolanaMobileWebShell(navigator.userAgent)))
    try {
      let lnaPermission = await navigator.permissions.query({ name: "loopback-network" });
      if (lnaPermission.state === "granted") return;
      if (lnaPermission.state === "denied") {
        let modal = new LoopbackPermissionBlockedModal();
        throw modal.init(), modal.open(), new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_LOOPBACK_ACCESS_BLOCKED, "Local Network Access permission denied");
      } else if (lnaPermission.state === "prompt") {
        let modal = new LoopbackPermissionModal();
        if (await new Promise((resolve, reject) => {
          modal.addEventListener("close", (event) => {
            event && reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_ASSOCIATION_CANCELLED, "Wallet connection cancelled by user", { event }));
          }), lnaPermission.onchange = () => {
            lnaPermission.onchange = null, resolve(lnaPermission.state);
          }, modal.init(), modal.open();
        }) === "granted") {
          let modal2 = new LocalConnectionModal();
          await new Promise((resolve, reject) => {
            modal2.addEventListener("close", (event) => {
              event && reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_ASSOCIATION_CANCELLED, "Wallet connection cancelled by user", { event }));
            }), modal2.initWithCallback(async () => {
              resolve(!0);
            }), modal2.open();
          });
          return;
        } else return await checkLocalNetworkAccessPermission();
      }
      throw new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_LOOPBACK_ACCESS_BLOCKED, "Local Network Access permission unknown");
    } catch (e2) {
      if (e2 instanceof TypeError && (e2.message.includes("loopback-network") || e2.message.includes("local-network-access"))) return;
      throw e2 instanceof SolanaMobileWalletAdapterError ? e2 : new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_LOOPBACK_ACCESS_BLOCKED, e2 instanceof Error ? e2.message : "Local Network Access permission unknown");
    }
}
var EmbeddedLoadingSpinner = class {
  init() {
  }
  open() {
  }
  close() {
  }
  addEventListener() {
    return () => {
    };
  }
};
var icon = "data:image/svg+xml;base64,PHN2ZyB3aWR0aD0iMjQiIGhlaWdodD0iMjQiIHZpZXdCb3g9IjAgMCAyNCAyNCIgZmlsbD0ibm9uZSIgeG1sbnM9Imh0dHA6Ly93d3cudzMub3JnLzIwMDAvc3ZnIj4KPHBhdGggZmlsbC1ydWxlPSJldmVub2RkIiBjbGlwLXJ1bGU9ImV2ZW5vZGQiIGQ9Ik03IDIuNUgxN0MxNy44Mjg0IDIuNSAxOC41IDMuMTcxNTcgMTguNSA0VjIwQzE4LjUgMjAuODI4NCAxNy44Mjg0IDIxLjUgMTcgMjEuNUg3QzYuMTcxNTcgMjEuNSA1LjUgMjAuODI4NCA1LjUgMjBWNEM1LjUgMy4xNzE1NyA2LjE3MTU3IDIuNSA3IDIuNVpNMyA0QzMgMS43OTA4NiA0Ljc5MDg2IDAgNyAwSDE3QzE5LjIwOTEgMCAyMSAxLjc5MDg2IDIxIDRWMjBDMjEgMjIuMjA5MSAxOS4yMDkxIDI0IDE3IDI0SDdDNC43OTA4NiAyNCAzIDIyLjIwOTEgMyAyMFY0Wk0xMSA0LjYxNTM4QzEwLjQ0NzcgNC42MTUzOCAxMCA1LjA2MzEgMTAgNS42MTUzOFY2LjM4NDYyQzEwIDYuOTM2OSAxMC40NDc3IDcuMzg0NjIgMTEgNy4zODQ2MkgxM0MxMy41NTIzIDcuMzg0NjIgMTQgNi45MzY5IDE0IDYuMzg0NjJWNS42MTUzOEMxNCA1LjA2MzEgMTMuNTUyMyA0LjYxNTM4IDEzIDQuNjE1MzhIMTFaIiBmaWxsPSIjRENCOEZGIi8+Cjwvc3ZnPgo=", SolanaMobileWalletAdapterWalletName = "Mobile Wallet Adapter";
var DEFAULT_FEATURES = [
  SolanaSignAndSendTransaction,
  SolanaSignTransaction,
  SolanaSignMessage,
  SolanaSignIn
], WALLET_ASSOCIATION_TIMEOUT = 3e4;
function getErrorMessage2(error) {
  return error instanceof Error ? error.message : "Unknown error";
}
var LocalSolanaMobileWalletAdapterWallet = class {
  #listeners = {};
  #version = "1.0.0";
  #name = SolanaMobileWalletAdapterWalletName;
  #url = "https://solanamobile.com/wallets";
  #icon = icon;
  #appIdentity;
  #authorization;
  #authorizationCache;
  #connecting = !1;
  /**
  * Every time the connection is recycled in some way (eg. `disconnect()` is called)
  * increment this and use it to make sure that `transact` calls from the previous
  * 'generation' don't continue to do work and throw exceptions.
  */
  #connectionGeneration = 0;
  #chains = [];
  #chainSelector;
  #optionalFeatures;
  #onWalletNotFound;
  #nostrRelay;
  get version() {
    return this.#version;
  }
  get name() {
    return this.#name;
  }
  get url() {
    return this.#url;
  }
  get icon() {
    return this.#icon;
  }
  get chains() {
    return this.#chains;
  }
  get features() {
    return {
      [StandardConnect]: {
        version: "1.0.0",
        connect: this.#connect
      },
      [StandardDisconnect]: {
        version: "1.0.0",
        disconnect: this.#disconnect
      },
      [StandardEvents]: {
        version: "1.0.0",
        on: this.#on
      },
      [SolanaSignMessage]: {
        version: "1.0.0",
        signMessage: this.#signMessage
      },
      [SolanaSignIn]: {
        version: "1.0.0",
        signIn: this.#signIn
      },
      ...this.#optionalFeatures
    };
  }
  get accounts() {
    return this.#authorization?.accounts ?? [];
  }
  constructor(config) {
    this.#authorizationCache = config.authorizationCache, this.#appIdentity = config.appIdentity, this.#chains = config.chains, this.#chainSelector = config.chainSelector, this.#onWalletNotFound = config.onWalletNotFound, this.#nostrRelay = config.nostrRelay, this.#optionalFeatures = {
      [SolanaSignAndSendTransaction]: {
        version: "1.0.0",
        supportedTransactionVersions: ["legacy", 0],
        signAndSendTransaction: this.#signAndSendTransaction
      },
      [SolanaSignTransaction]: {
        version: "1.0.0",
        supportedTransactionVersions: ["legacy", 0],
        signTransaction: this.#signTransaction
      }
    };
  }
  get connected() {
    return !!this.#authorization;
  }
  get isAuthorized() {
    return !!this.#authorization;
  }
  get currentAuthorization() {
    return this.#authorization;
  }
  get cachedAuthorizationResult() {
    return this.#authorizationCache.get();
  }
  #on = (event, listener) => (this.#listeners[event]?.push(listener) || (this.#listeners[event] = [listener]), () => this.#off(event, listener));
  #emit(event, ...args) {
    this.#listeners[event]?.forEach((listener) => listener.apply(null, args));
  }
  #off(event, listener) {
    this.#listeners[event] = this.#listeners[event]?.filter((existingListener) => listener !== existingListener);
  }
  #connect = async ({ silent } = {}) => {
    if (this.#connecting || this.connected) return { accounts: this.accounts };
    this.#connecting = !0;
    try {
      if (silent) {
        let cachedAuthorization = await this.#authorizationCache.get();
        if (cachedAuthorization)
          await this.#handleWalletCapabilitiesResult(cachedAuthorization.capabilities), await this.#handleAuthorizationResult(cachedAuthorization);
        else return { accounts: this.accounts };
      } else await this.#performAuthorization();
    } catch (e2) {
      throw new Error(getErrorMessage2(e2), { cause: e2 });
    } finally {
      this.#connecting = !1;
    }
    return { accounts: this.accounts };
  };
  #performAuthorization = async (signInPayload) => {
    try {
      let cachedAuthorizationResult = await this.#authorizationCache.get();
      if (cachedAuthorizationResult)
        return this.#handleAuthorizationResult(cachedAuthorizationResult), cachedAuthorizationResult;
      let selectedChain = await this.#chainSelector.select(this.#chains);
      return await this.#transact(async (wallet) => {
        let [capabilities, mwaAuthorizationResult] = await Promise.all([wallet.getCapabilities(), wallet.authorize({
          chain: selectedChain,
          identity: this.#appIdentity,
          sign_in_payload: signInPayload
        })]), accounts = this.#accountsToWalletStandardAccounts(mwaAuthorizationResult.accounts), authorization = {
          ...mwaAuthorizationResult,
          accounts,
          chain: selectedChain,
          capabilities
        };
        return Promise.all([
          this.#handleWalletCapabilitiesResult(capabilities),
          this.#authorizationCache.set(authorization),
          this.#handleAuthorizationResult(authorization)
        ]), authorization;
      });
    } catch (e2) {
      throw new Error(getErrorMessage2(e2), { cause: e2 });
    }
  };
  #handleAuthorizationResult = async (authorization) => {
    let didPublicKeysChange = this.#authorization == null || this.#authorization?.accounts.length !== authorization.accounts.length || this.#authorization.accounts.some((account, ii) => account.address !== authorization.accounts[ii].address);
    this.#authorization = authorization, didPublicKeysChange && this.#emit("change", { accounts: this.accounts });
  };
  #handleWalletCapabilitiesResult = async (capabilities) => {
    let supportsSignTransaction = capabilities.features.includes("solana:signTransactions"), supportsSignAndSendTransaction = capabilities.supports_sign_and_send_transactions, didCapabilitiesChange = SolanaSignAndSendTransaction in this.features !== supportsSignAndSendTransaction || SolanaSignTransaction in this.features !== supportsSignTransaction;
    this.#optionalFeatures = {
      ...(supportsSignAndSendTransaction || !supportsSignAndSendTransaction && !supportsSignTransaction) && { [SolanaSignAndSendTransaction]: {
        version: "1.0.0",
        supportedTransactionVersions: ["legacy", 0],
        signAndSendTransaction: this.#signAndSendTransaction
      } },
      ...supportsSignTransaction && { [SolanaSignTransaction]: {
        version: "1.0.0",
        supportedTransactionVersions: ["legacy", 0],
        signTransaction: this.#signTransaction
      } }
    }, didCapabilitiesChange && this.#emit("change", { features: this.features });
  };
  #performReauthorization = async (wallet, authToken, chain) => {
    try {
      let [capabilities, mwaAuthorizationResult] = await Promise.all([this.#authorization?.capabilities ?? await wallet.getCapabilities(), wallet.authorize({
        auth_token: authToken,
        identity: this.#appIdentity,
        chain
      })]), accounts = this.#accountsToWalletStandardAccounts(mwaAuthorizationResult.accounts), authorization = {
        ...mwaAuthorizationResult,
        accounts,
        chain,
        capabilities
      };
      Promise.all([this.#authorizationCache.set(authorization), this.#handleAuthorizationResult(authorization)]);
    } catch (e2) {
      throw this.#disconnect(), new Error(getErrorMessage2(e2), { cause: e2 });
    }
  };
  #disconnect = async () => {
    this.#authorizationCache.clear(), this.#connecting = !1, this.#connectionGeneration++, this.#authorization = void 0, this.#emit("change", { accounts: this.accounts });
  };
  #transact = async (callback) => {
    let walletUriBase = this.#authorization?.wallet_uri_base, config = walletUriBase ? { baseUri: walletUriBase } : void 0, currentConnectionGeneration = this.#connectionGeneration, loadingSpinner = new EmbeddedLoadingSpinner();
    try {
      let associating = !0, timeout, useWebSocket = await isLocalWebSocketAvailable(), result = await Promise.race([(async () => {
        !useWebSocket && !this.#nostrRelay && await checkLocalNetworkAccessPermission();
      })().then(async () => {
        loadingSpinner.init();
        let { wallet, close } = !useWebSocket && this.#nostrRelay ? await startNostrScenario({
          ...config,
          connectionType: "local",
          relayDomain: this.#nostrRelay
        }) : await startScenario(config);
        associating = !1, loadingSpinner.addEventListener("close", (event) => {
          event && close();
        }), loadingSpinner.open();
        let result2 = await callback(await wallet);
        return loadingSpinner.close(), close(), result2;
      }), new Promise((_, reject) => {
        timeout = setTimeout(() => {
          associating && reject(new SolanaMobileWalletAdapterError(SolanaMobileWalletAdapterErrorCode.ERROR_ASSOCIATION_CANCELLED, "Wallet connection timed out", { event: void 0 }));
        }, WALLET_ASSOCIATION_TIMEOUT);
      })]);
      return clearTimeout(timeout), result;
    } catch (e2) {
      throw loadingSpinner.close(), this.#connectionGeneration !== currentConnectionGeneration && await new Promise(() => {
      }), e2 instanceof Error && e2.name === "SolanaMobileWalletAdapterError" && e2.code === "ERROR_WALLET_NOT_FOUND" && await this.#onWalletNotFound(this), e2;
    }
  };
  #assertIsAuthorized = () => {
    if (!this.#authorization) throw new Error("Wallet not connected");
    return {
      authToken: this.#authorization.auth_token,
      chain: this.#authorization.chain
    };
  };
  #accountsToWalletStandardAccounts = (accounts) => accounts.map((account) => {
    let publicKey = base64ToUint8Array(account.address);
    return {
      address: base58FromUint8Array(publicKey),
      publicKey,
      label: account.label,
      icon: account.icon,
      chains: account.chains ?? this.#chains,
      features: account.features ?? DEFAULT_FEATURES
    };
  });
  #performSignTransactions = async (transactions) => {
    let { authToken, chain } = this.#assertIsAuthorized();
    try {
      let base64Transactions = transactions.map((tx) => base64FromUint8Array(tx));
      return await this.#transact(async (wallet) => (await this.#performReauthorization(wallet, authToken, chain), (await wallet.signTransactions({ payloads: base64Transactions })).signed_payloads.map(base64ToUint8Array)));
    } catch (e2) {
      throw new Error(getErrorMessage2(e2), { cause: e2 });
    }
  };
  #performSignAndSendTransaction = async (transaction, options) => {
    let { authToken, chain } = this.#assertIsAuthorized();
    try {
      return await this.#transact(async (wallet) => {
        let [capabilities] = await Promise.all([wallet.getCapabilities(), this.#performReauthorization(wallet, authToken, chain)]);
        if (capabilities.supports_sign_and_send_transactions) {
          let base64Transaction = base64FromUint8Array(transaction);
          return (await wallet.signAndSendTransactions({
            ...options,
            payloads: [base64Transaction]
          })).signatures.map(base64ToUint8Array)[0];
        } else throw new Error("connected wallet does not support signAndSendTransaction");
      });
    } catch (e2) {
      throw new Error(getErrorMessage2(e2), { cause: e2 });
    }
  };
  #signAndSendTransaction = async (...inputs) => {
    let outputs = [];
    for (let input of inputs) {
      let signature = await this.#performSignAndSendTransaction(input.transaction, input.options);
      outputs.push({ signature });
    }
    return outputs;
  };
  #signTransaction = async (...inputs) => (await this.#performSignTransactions(inputs.map(({ transaction }) => transaction))).map((signedTransaction) => ({ signedTransaction }));
  #signMessage = async (...inputs) => {
    let { authToken, chain } = this.#assertIsAuthorized(), addresses = inputs.map(({ account }) => base64FromUint8Array(new Uint8Array(account.publicKey))), messages = inputs.map(({ message }) => base64FromUint8Array(message));
    try {
      return await this.#transact(async (wallet) => (await this.#performReauthorization(wallet, authToken, chain), (await wallet.signMessages({
        addresses,
        payloads: messages
      })).signed_payloads.map(base64ToUint8Array).map((signedMessage) => ({
        signedMessage,
        signature: signedMessage.slice(-64)
      }))));
    } catch (e2) {
      throw new Error(getErrorMessage2(e2), { cause: e2 });
    }
  };
  #signIn = async (...inputs) => {
    let outputs = [];
    if (inputs.length > 1) for (let input of inputs) outputs.push(await this.#performSignIn(input));
    else return [await this.#performSignIn(inputs[0])];
    return outputs;
  };
  #performSignIn = async (input) => {
    this.#connecting = !0;
    try {
      let authorizationResult = await this.#performAuthorization({
        ...input,
        domain: input?.domain ?? window.location.host
      });
      if (!authorizationResult.sign_in_result) throw new Error("Sign in failed, no sign in result returned by wallet");
      let signedInAddress = authorizationResult.sign_in_result.address, signedInAccount = authorizationResult.accounts.find((acc) => acc.address == signedInAddress);
      return {
        account: {
          ...signedInAccount ?? { address: base58FromUint8Array(base64ToUint8Array(signedInAddress)) },
          publicKey: base64ToUint8Array(signedInAddress),
          chains: signedInAccount?.chains ?? this.#chains,
          features: signedInAccount?.features ?? authorizationResult.capabilities.features
        },
        signedMessage: base64ToUint8Array(authorizationResult.sign_in_result.signed_message),
        signature: base64ToUint8Array(authorizationResult.sign_in_result.signature)
      };
    } catch (e2) {
      throw new Error(getErrorMessage2(e2), { cause: e2 });
    } finally {
      this.#connecting = !1;
    }
  };
};
export {
  LocalSolanaMobileWalletAdapterWallet
};
