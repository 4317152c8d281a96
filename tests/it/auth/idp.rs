//! An issuer: a key pair that signs, and a server for its public keys that follows a script.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// The audience of tokens, unless a test sets another.
pub const AUDIENCE: &str = "agents";

/// A key of an issuer.
pub struct Signer {
    pub kid: String,
    pair: EcdsaKeyPair,
}

impl Signer {
    pub fn new(kid: &str) -> Signer {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        Signer { kid: kid.to_owned(), pair }
    }

    pub fn jwk(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        let b64 = |bytes| URL_SAFE_NO_PAD.encode(bytes);
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": self.kid, "x": b64(x), "y": b64(y)})
    }

    /// A token of `issuer` that is good for a minute.
    pub fn token(&self, issuer: &str) -> String {
        self.token_with_claims(&claims(issuer))
    }

    pub fn token_with_claims(&self, claims: &Value) -> String {
        let head = json!({"alg": "ES256", "typ": "JWT", "kid": self.kid}).to_string();
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes()).expect("a signature");
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Claims of a token that is good for a minute.
pub fn claims(issuer: &str) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    json!({"iss": issuer, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 60})
}

/// A set of keys.
pub fn jwks(signers: &[&Signer]) -> String {
    json!({"keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>()}).to_string()
}

/// The behaviour of the server.
#[derive(Clone, Debug)]
pub enum Reply {
    /// with these bytes, and closes
    Bytes(Vec<u8>),
    /// with these bytes, and then nothing, for ever
    Stall(Vec<u8>),
}

/// A JSON document.
pub fn json_reply(body: &str) -> Reply {
    http_reply("200 OK", "application/json", body)
}

pub fn http_reply(status: &str, kind: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::Bytes(format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}").into())
}

/// The server of an issuer.
pub struct Idp {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    replies: Mutex<HashMap<String, Reply>>,
    request_counts: Mutex<HashMap<String, usize>>,
    open: watch::Sender<bool>,
    tls: Option<TlsAcceptor>,
}

impl Idp {
    pub async fn start() -> Idp {
        Idp::start_server(None).await
    }

    pub async fn start_with_tls(tls: TlsAcceptor) -> Idp {
        Idp::start_server(Some(tls)).await
    }

    async fn start_server(tls: Option<TlsAcceptor>) -> Idp {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (replies, request_counts, open) = (Mutex::default(), Mutex::default(), watch::Sender::new(true));
        let shared = Arc::new(Shared { replies, request_counts, open, tls });
        tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let shared = Arc::clone(&shared);
                    tokio::spawn(async move {
                        // A gateway that gives up breaks the connection; the test sees what it made of it.
                        match &shared.tls {
                            Some(tls) => shared.serve(tls.accept(stream).await?).await,
                            None => shared.serve(stream).await,
                        }
                    });
                }
            }
        });
        Idp { address, shared }
    }

    /// Returns the `iss` of its tokens.
    pub fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the configuration of an issuer whose keys are at `/keys`.
    pub fn issuer_yaml(&self) -> String {
        format!("name: corp, issuer: '{}', audience: {AUDIENCE}, jwks_url: '{}/keys'", self.issuer(), self.issuer())
    }

    pub fn set_reply(&self, path: &str, reply: Reply) {
        self.shared.replies.lock().expect("not poisoned").insert(path.to_owned(), reply);
    }

    /// Returns the number of requests for a path.
    pub fn request_count(&self, path: &str) -> usize {
        self.shared.request_counts.lock().expect("not poisoned").get(path).copied().unwrap_or(0)
    }

    /// Answers requests, or holds them back.
    pub fn set_answering(&self, open: bool) {
        self.shared.open.send_replace(open);
    }
}

impl Shared {
    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(&self, mut stream: S) -> std::io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let head = String::from_utf8(head).expect("a head in ASCII");
        let path = head.strip_prefix("GET ").and_then(|rest| rest.split(' ').next()).expect("a GET").to_owned();
        *self.request_counts.lock().expect("not poisoned").entry(path.clone()).or_default() += 1;
        let mut open = self.open.subscribe();
        let _ = open.wait_for(|open| *open).await;
        let reply = self.replies.lock().expect("not poisoned").get(&path).cloned();
        match reply.unwrap_or_else(|| http_reply("404 Not Found", "text/plain", "")) {
            Reply::Bytes(bytes) => stream.write_all(&bytes).await?,
            Reply::Stall(bytes) => {
                stream.write_all(&bytes).await?;
                while stream.read(&mut [0; 64]).await? > 0 {}
            }
        }
        stream.shutdown().await
    }
}
