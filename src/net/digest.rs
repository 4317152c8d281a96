//! SHA-256 digests, for recognising values that are not stored.

use aws_lc_rs::digest::{Context, SHA256, digest};

pub(crate) type Sha256Digest = [u8; 32];

pub(crate) fn sha256(content: &[u8]) -> Sha256Digest {
    to_array(&digest(&SHA256, content))
}

/// Hashes each part with its length, so that different lists have different digests.
pub(crate) fn sha256_parts(parts: &[Option<&str>]) -> Sha256Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        let length = part.map_or(u64::MAX, |part| part.len() as u64);
        context.update(&length.to_be_bytes());
        context.update(part.unwrap_or_default().as_bytes());
    }
    to_array(&context.finish())
}

fn to_array(digest: &aws_lc_rs::digest::Digest) -> Sha256Digest {
    let mut bytes = Sha256Digest::default();
    bytes.copy_from_slice(digest.as_ref());
    bytes
}
