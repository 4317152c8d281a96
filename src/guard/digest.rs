//! SHA-256: how the guard knows again what it does not keep.

use aws_lc_rs::digest::{Context, SHA256, digest};

/// A digest.
pub type Digest = [u8; 32];

/// Of one content.
#[must_use]
pub fn of(content: &[u8]) -> Digest {
    bytes(&digest(&SHA256, content))
}

/// Of parts with their lengths, so that no two lists of them read alike.
#[must_use]
pub fn of_parts(parts: &[Option<&str>]) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        let length = part.map_or(u64::MAX, |part| part.len() as u64);
        context.update(&length.to_be_bytes());
        context.update(part.unwrap_or_default().as_bytes());
    }
    bytes(&context.finish())
}

fn bytes(digest: &aws_lc_rs::digest::Digest) -> Digest {
    let mut bytes = Digest::default();
    bytes.copy_from_slice(digest.as_ref());
    bytes
}
