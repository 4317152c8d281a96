//! Parses the listeners' PEM certificates and keys, for `check`, which reports mistakes with their line, and for the
//! listeners, which reload changed files.

use crate::net::tls::{parse_certificates, parse_private_key};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{ServerConfig, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{Error, RootCertStore};
use x509_parser::parse_x509_certificate;

const ALPN_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

#[derive(Debug)]
pub(crate) struct CertificatePair {
    certified: CertifiedKey,
    /// the earliest expiry in the chain, in seconds since the Unix epoch
    pub(crate) not_after: i64,
}

/// A mistake in a certificate or key file. The reason does not quote the file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("certificate: {0}")]
    Cert(String),
    #[error("key: {0}")]
    Key(String),
}

/// Parses a certificate chain and its private key.
pub(crate) fn parse_pair(cert: &[u8], key: &[u8]) -> Result<CertificatePair, CertificateError> {
    let chain = parse_certificates(cert).map_err(|error| CertificateError::Cert(error.to_string()))?;
    let mut not_after = i64::MAX;
    for one in &chain {
        let (_, read) = parse_x509_certificate(one)
            .map_err(|_| CertificateError::Cert("a certificate in this file cannot be read".to_owned()))?;
        not_after = not_after.min(read.validity().not_after.timestamp());
    }
    let key = parse_private_key(key).map_err(|error| CertificateError::Key(error.to_string()))?;
    let certified = CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| match error {
        Error::InconsistentKeys(_) => CertificateError::Key("this is the key of another certificate".to_owned()),
        Error::InvalidCertificate(_) => CertificateError::Cert("the certificate cannot be read".to_owned()),
        _ => CertificateError::Key("TLS does not support this kind of private key".to_owned()),
    })?;
    Ok(CertificatePair { certified, not_after })
}

/// Parses the certificate authorities for client certificates.
pub(crate) fn parse_authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in parse_certificates(pem).map_err(|error| error.to_string())? {
        roots.add(certificate).map_err(|_| "a certificate in this file is not that of an authority".to_owned())?;
    }
    Ok(roots)
}

/// Supports TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1. `clients` contains the authorities for client certificates, and
/// whether a certificate is mandatory.
pub(crate) fn server_config(
    pair: CertificatePair,
    clients: Option<(RootCertStore, bool)>,
) -> Result<ServerConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some((roots, required)) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if required { verifier } else { verifier.allow_unauthenticated() };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| error.to_string())?)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair.certified)));
    config.alpn_protocols = ALPN_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}
