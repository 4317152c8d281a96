//! An authority made by `openssl`, and its certificates.

use super::super::support::temp_folder::TempFolder;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// An authority: `NAME.pem` and `NAME.key` in its folder, and so are its certificates.
pub struct Authority<'f> {
    folder: &'f TempFolder,
    name: String,
}

/// A certificate, its key, and its issuer.
pub struct CertifiedKey {
    pub cert: PathBuf,
    pub key: PathBuf,
}

fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.current_dir(folder).args(arguments.split_whitespace()).stdin(Stdio::null());
    let made = command.output().expect("openssl is there");
    assert!(made.status.success(), "{arguments}: {}", String::from_utf8_lossy(&made.stderr));
}

const NEW: &str = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30";

impl<'f> Authority<'f> {
    pub fn new(folder: &'f TempFolder, name: &str) -> Authority<'f> {
        openssl(
            folder.path(),
            &format!("{NEW} -subj /CN={name} -keyout {name}.key -out {name}.pem -addext keyUsage=keyCertSign,cRLSign"),
        );
        Authority { folder, name: name.to_owned() }
    }

    pub fn pem(&self) -> PathBuf {
        self.folder.join(&format!("{}.pem", self.name))
    }

    /// A certificate for a host, or for a client.
    pub fn issue(&self, file: &str, host: &str) -> CertifiedKey {
        CertifiedKey::create(self.folder, &format!("-CA {0}.pem -CAkey {0}.key", self.name), file, host)
    }
}

impl CertifiedKey {
    /// Creates a self-signed certificate.
    pub fn self_signed(folder: &TempFolder, file: &str, host: &str) -> CertifiedKey {
        CertifiedKey::create(folder, "", file, host)
    }

    fn create(folder: &TempFolder, by: &str, file: &str, host: &str) -> CertifiedKey {
        let what = format!("-addext subjectAltName=DNS:{host} -addext basicConstraints=critical,CA:FALSE");
        openssl(folder.path(), &format!("{NEW} {by} -subj /CN={host} -keyout {file}.key -out {file}.pem {what}"));
        CertifiedKey { cert: folder.join(&format!("{file}.pem")), key: folder.join(&format!("{file}.key")) }
    }

    /// Returns a server with it that supports these protocols, and requests client certificates of `clients`.
    pub fn server(&self, protocols: &[&str], clients: Option<&Path>) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().expect("versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_file(pem).expect("a certificate")).expect("an authority");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
            }
        };
        let cert = CertificateDer::from_pem_file(&self.cert).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(&self.key).expect("a key");
        let mut config = builder.with_single_cert(vec![cert], key).expect("they fit");
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}
