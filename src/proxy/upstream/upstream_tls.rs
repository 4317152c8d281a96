//! What TLS connections to the agents of a route are made with, kept fresh while files change.
//!
//! The files are read together and taken together: a certificate whose key has not been replaced yet is not half a
//! change. They are compared by content, because a mounted Secret changes by a link to another folder.

use crate::config::{Identity, UpstreamTls, load};
use crate::telemetry::occurrence;
use pingora_core::protocols::tls::CaType;
use pingora_core::utils::tls::{CertKey, WrappedX509, parse_x509};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use x509_parser::prelude::{FromDer, X509Certificate};

/// How often the files are looked at.
const POLL: Duration = Duration::from_secs(2);

/// How long changed files have to stay as they are: those that are being written are not taken in the middle.
const SETTLE: Duration = Duration::from_millis(100);

/// Certificates and keys for connections that are made now.
pub(super) struct Tls {
    route: Arc<str>,
    files: UpstreamTls,
    material: Mutex<Arc<Material>>,
    /// what was found in the files last, usable or not: nothing is said twice
    seen: Mutex<Contents>,
}

/// What the files meant at one time.
#[derive(Default)]
pub(super) struct Material {
    /// tells connections that were made with it from others; zero where nothing is configured
    pub id: u64,
    pub ca: Option<Arc<CaType>>,
    pub identity: Option<Arc<CertKey>>,
}

/// What stands in each file, or why it cannot be read, with its name.
type Contents = Vec<Result<Vec<u8>, String>>;

impl Tls {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// Which of them cannot be used, and why.
    pub(super) fn open(route: &Arc<str>, files: &UpstreamTls) -> Result<Self, String> {
        let contents = read(files);
        let material = understand(files, &contents)?;
        let (route, files) = (Arc::clone(route), files.clone());
        Ok(Tls { route, files, material: Mutex::new(Arc::new(material)), seen: Mutex::new(contents) })
    }

    /// The name that certificates have to be for, where it is not the host.
    pub(super) fn server_name(&self) -> Option<&str> {
        self.files.server_name.as_deref()
    }

    /// What connections are made with now.
    pub(super) fn material(&self) -> Arc<Material> {
        Arc::clone(&held(&self.material))
    }

    /// Looks at the files from time to time: never returns.
    pub(super) async fn watch(&self) {
        loop {
            tokio::time::sleep(POLL).await;
            self.look().await;
        }
    }

    async fn look(&self) {
        let first = self.read().await;
        if first == *held(&self.seen) {
            return;
        }
        tokio::time::sleep(SETTLE).await;
        if self.read().await != first {
            return;
        }
        let route = &self.route;
        match understand(&self.files, &first) {
            Ok(material) => {
                *held(&self.material) = Arc::new(material);
                occurrence::CertificatesChanged { route }.emit();
            }
            Err(cause) => occurrence::CertificatesUnusable { route, cause: &cause }.emit(),
        }
        *held(&self.seen) = first;
    }

    async fn read(&self) -> Contents {
        let files = self.files.clone();
        // A disk or a network that hangs must not hold up whatever else is watched.
        let read = tokio::task::spawn_blocking(move || read(&files)).await;
        read.unwrap_or_else(|error| vec![Err(error.to_string())])
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while a lock is held.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The files in the order in which [`understand`] takes them.
fn paths(files: &UpstreamTls) -> Vec<&Path> {
    let Identity { cert, key } = match &files.identity {
        Some(identity) => identity,
        None => return files.ca.iter().map(AsRef::as_ref).collect(),
    };
    files.ca.iter().chain([cert, key]).map(AsRef::as_ref).collect()
}

fn read(files: &UpstreamTls) -> Contents {
    let each = |path: &Path| load::bytes(path).map_err(|why| format!("{}: {why}", path.display()));
    paths(files).into_iter().map(each).collect()
}

fn understand(files: &UpstreamTls, contents: &Contents) -> Result<Material, String> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let contents: Vec<&[u8]> =
        contents.iter().map(|content| content.as_deref().map_err(String::clone)).collect::<Result<_, _>>()?;
    let mut contents = contents.into_iter().zip(paths(files));
    let mut next = || contents.next().ok_or("a file is missing".to_owned());
    let ca = match &files.ca {
        Some(_) => Some(authorities(next()?)?),
        None => None,
    };
    let identity = match &files.identity {
        Some(_) => Some(identity(next()?, next()?)?),
        None => None,
    };
    Ok(Material { id: LAST.fetch_add(1, Ordering::Relaxed) + 1, ca, identity })
}

/// The certificates of a file; pingora takes for granted that it can read them.
fn certificates((content, path): (&[u8], &Path)) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |what: &str| format!("{}: {what}", path.display());
    let all = CertificateDer::pem_slice_iter(content).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| wrong(&format!("is no PEM: {error}")))?;
    if all.is_empty() {
        return Err(wrong("holds no certificate in PEM"));
    }
    if all.iter().any(|one| X509Certificate::from_der(one).is_err()) {
        return Err(wrong("holds a certificate that cannot be read"));
    }
    Ok(all)
}

fn authorities(file: (&[u8], &Path)) -> Result<Arc<CaType>, String> {
    let all = certificates(file)?;
    let mut store = RootCertStore::empty();
    for one in &all {
        store.add(one.clone()).map_err(|error| format!("{}: {error}", file.1.display()))?;
    }
    Ok(all.into_iter().map(|one| WrappedX509::new(one.to_vec(), parse_x509)).collect())
}

/// A certificate and its key, which have to fit.
fn identity(cert: (&[u8], &Path), key: (&[u8], &Path)) -> Result<Arc<CertKey>, String> {
    let (chain, path) = (certificates(cert)?, key.1.display());
    // The reader's own words may repeat what stands in the file.
    let key = PrivateKeyDer::from_pem_slice(key.0).map_err(|_| format!("{path}: holds no private key in PEM"))?;
    let pair = CertKey::new(chain.iter().map(|one| one.to_vec()).collect(), key.secret_der().to_vec());
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let fits = builder.with_root_certificates(RootCertStore::empty()).with_client_auth_cert(chain, key);
    fits.map_err(|error| format!("{path}: cannot be used with {}: {error}", cert.1.display()))?;
    Ok(Arc::new(pair))
}
