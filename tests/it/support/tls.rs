//! An authority made by `openssl`, its certificates, and TLS clients.

use super::within_deadline;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};

/// A folder with an authority, gone at the end of the test.
pub struct Authority {
    pub folder: PathBuf,
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Authority {
    pub fn new() -> Authority {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("diglot-tls-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let authority = Authority { folder: std::env::temp_dir().join(name) };
        std::fs::create_dir_all(&authority.folder).expect("a folder");
        authority.openssl("req -x509 NEW -days 30 -subj /CN=authority -keyout ca.key -out ca.pem");
        authority
    }

    /// Runs `openssl` in the folder; `NEW` are the arguments for a new key.
    fn openssl(&self, arguments: &str) {
        let arguments = arguments.replace("NEW", "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes");
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(&self.folder).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().expect("openssl is installed").success(), "openssl {arguments}");
    }

    /// Makes `<name>.pem` and `<name>.key`: a certificate for this host that ends in so many days.
    pub fn issue(&self, name: &str, days: i32) {
        self.openssl(&format!("req NEW -subj /CN=localhost -keyout {name}.key -out {name}.csr"));
        std::fs::write(self.folder.join("ext"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").expect("a file");
        let sign = "-CA ca.pem -CAkey ca.key -CAcreateserial -extfile ext";
        self.openssl(&format!("x509 -req -in {name}.csr {sign} -days {days} -out {name}.pem"));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The certificate in a file, as it is shown in a handshake.
    pub fn certificate(&self, name: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.path(name)).expect(name)
    }

    /// A listener of TLS, as a YAML flow mapping, with more keys of `tls`.
    pub fn listener(&self, name: &str, more: &str) -> String {
        let (cert, key) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        format!("{{address: 127.0.0.1:0, tls: {{cert: {}, key: {}{more}}}}}", cert.display(), key.display())
    }

    /// Returns a TLS client that trusts this authority.
    pub fn dialer(&self) -> Dialer {
        Dialer { ca: self.path("ca.pem"), own: None, version: &version::TLS13, protocols: Vec::new() }
    }
}

/// A TLS client.
pub struct Dialer {
    ca: PathBuf,
    own: Option<(PathBuf, PathBuf)>,
    version: &'static SupportedProtocolVersion,
    protocols: Vec<Vec<u8>>,
}

impl Dialer {
    /// With TLS 1.2.
    pub fn with_tls_1_2(self) -> Dialer {
        Dialer { version: &version::TLS12, ..self }
    }

    /// Showing a certificate of its own.
    pub fn with_certificate(self, authority: &Authority, name: &str) -> Dialer {
        let own = (authority.path(&format!("{name}.pem")), authority.path(&format!("{name}.key")));
        Dialer { own: Some(own), ..self }
    }

    /// Asking for a protocol inside.
    pub fn with_protocol(self, protocol: &str) -> Dialer {
        Dialer { protocols: vec![protocol.as_bytes().to_vec()], ..self }
    }

    fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.ca)).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_protocol_versions(&[self.version]).expect("a version");
        let builder = builder.with_root_certificates(roots);
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let key = PrivateKeyDer::from_pem_file(key).expect("a key");
                builder.with_client_auth_cert(vec![certificate(cert)], key).expect("a pair")
            }
        };
        config.alpn_protocols.clone_from(&self.protocols);
        config
    }

    /// Connects and shakes hands.
    pub async fn dial(&self, to: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(to).await.expect("the gateway listens");
        self.handshake(stream).await
    }

    /// Shakes hands on a connection.
    pub async fn handshake(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").expect("a name");
        within_deadline("a handshake", TlsConnector::from(Arc::new(self.config())).connect(name, stream)).await
    }
}

fn certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}
