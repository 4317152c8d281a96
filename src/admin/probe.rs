//! Checks a gateway's health, via its status listener (with or without TLS) or the socket in its `run_dir`.

use super::socket::{AdminResponse, exchange, send_request};
use crate::config::admin_endpoints::AdminEndpointsConfig;
use crate::config::listen::{ListenAddress, ListenerConfig};
use crate::net::tls;
use http::Uri;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned};

/// An address at which a gateway can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeTarget {
    /// a status listener on this machine
    Listener(ListenerConfig),
    /// host and port, without TLS
    Host(String),
    /// the directory of the admin socket
    RunDir(PathBuf),
}

impl ProbeTarget {
    /// Returns the status listeners, followed by the socket.
    pub(crate) fn from_reach(reach: AdminEndpointsConfig) -> Vec<ProbeTarget> {
        let listeners = reach.status.into_iter().map(ProbeTarget::Listener);
        listeners.chain(reach.run_dir.map(ProbeTarget::RunDir)).collect()
    }

    /// Parses a status listener URL: `http`, host, and port unless it is 80.
    pub(crate) fn parse_url(text: &str) -> Result<ProbeTarget, String> {
        let uri: Uri = text.parse().map_err(|_| "write a URL such as http://127.0.0.1:8788".to_owned())?;
        match (uri.scheme_str(), uri.host(), uri.path_and_query().map_or("", |path| path.as_str())) {
            (Some("http"), Some(host), "" | "/") => {
                Ok(ProbeTarget::Host(format!("{host}:{}", uri.port_u16().unwrap_or(80))))
            }
            (Some("http"), Some(_), _) => Err("remove the path; use --ready to check /readyz".to_owned()),
            _ => Err("write a URL such as http://127.0.0.1:8788; for a listener with TLS, use --config".to_owned()),
        }
    }

    fn request(&self, path: &str) -> io::Result<AdminResponse> {
        match self {
            ProbeTarget::RunDir(run_dir) => send_request(run_dir, "GET", path, None),
            ProbeTarget::Host(host) => exchange(TcpStream::connect(host)?, "GET", path),
            ProbeTarget::Listener(listen) => match &listen.address {
                ListenAddress::Tcp(address) => {
                    exchange_with_listener(TcpStream::connect(loopback_address(*address))?, listen, path)
                }
                ListenAddress::Unix { path: socket, .. } => {
                    exchange_with_listener(UnixStream::connect(socket)?, listen, path)
                }
            },
        }
    }
}

impl fmt::Display for ProbeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeTarget::RunDir(run_dir) => write!(f, "{}", run_dir.display()),
            ProbeTarget::Host(host) => write!(f, "http://{host}"),
            ProbeTarget::Listener(ListenerConfig { address: ListenAddress::Tcp(address), tls, .. }) => {
                write!(f, "{}://{}", if tls.is_some() { "https" } else { "http" }, loopback_address(*address))
            }
            ProbeTarget::Listener(ListenerConfig { address, .. }) => write!(f, "{address}"),
        }
    }
}

/// Tries the targets in order until one responds to a request for `path`. `timeout` covers all of them.
pub(crate) fn probe(
    ways: Vec<ProbeTarget>,
    path: &'static str,
    timeout: Duration,
) -> Result<(ProbeTarget, AdminResponse), String> {
    let (result, results) = mpsc::channel();
    // Name resolution has no timeout of its own, so the thread is abandoned after `timeout`.
    thread::spawn(move || {
        // Fails only after the timeout.
        let _ = result.send(try_in_order(ways, path));
    });
    let late = |_| Err(format!("no answer to {path} within {timeout:?}"));
    results.recv_timeout(timeout).unwrap_or_else(late)
}

fn try_in_order(ways: Vec<ProbeTarget>, path: &str) -> Result<(ProbeTarget, AdminResponse), String> {
    let mut failures = Vec::new();
    for way in ways {
        match way.request(path) {
            Ok(answer) => return Ok((way, answer)),
            Err(error) => failures.push(format!("{way}{path}: {error}")),
        }
    }
    Err(failures.join("; "))
}

fn loopback_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn exchange_with_listener(
    mut stream: impl Read + Write,
    listen: &ListenerConfig,
    path: &str,
) -> io::Result<AdminResponse> {
    if listen.proxy_protocol {
        // The probe's own connection has no client address to report (PROXY protocol, 2.1).
        stream.write_all(b"PROXY UNKNOWN\r\n")?;
    }
    if listen.tls.is_none() {
        return exchange(stream, "GET", path);
    }
    let connection = tls_client().map_err(io::Error::other)?;
    exchange(StreamOwned::new(connection, stream), "GET", path)
}

fn tls_client() -> Result<ClientConnection, Error> {
    let builder = tls::client_config()?.dangerous();
    let config = builder.with_custom_certificate_verifier(Arc::new(NoVerification)).with_no_client_auth();
    ClientConnection::new(Arc::new(config), ServerName::from(IpAddr::V4(Ipv4Addr::LOCALHOST)))
}

/// Accepts any certificate, because certificates name the gateway's public host and may come from an authority that is
/// not trusted here. The probe sends no secrets.
#[derive(Debug)]
struct NoVerification;

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &signature_algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &signature_algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        signature_algorithms().supported_schemes()
    }
}

fn signature_algorithms() -> WebPkiSupportedAlgorithms {
    ring::default_provider().signature_verification_algorithms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_http_urls_without_a_path() {
        for (text, host) in [
            ("http://127.0.0.1:8788", "127.0.0.1:8788"),
            ("http://gateway:8788/", "gateway:8788"),
            ("http://[::1]:8788", "[::1]:8788"),
            ("http://gateway", "gateway:80"),
        ] {
            assert_eq!(ProbeTarget::parse_url(text), Ok(ProbeTarget::Host(host.to_owned())), "{text}");
        }
        for text in ["", "gateway:8788", "/livez", "https://gateway:8788", "http://gateway:8788/readyz"] {
            ProbeTarget::parse_url(text).expect_err(text);
        }
    }

    #[test]
    fn probes_wildcard_addresses_on_their_loopback() {
        for (listens, probed) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("10.0.0.7:1", "10.0.0.7:1"),
            ("127.0.0.2:1", "127.0.0.2:1"),
        ] {
            assert_eq!(loopback_address(listens.parse().expect("an address")).to_string(), probed);
        }
    }
}
