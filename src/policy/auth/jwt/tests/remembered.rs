//! Tokens whose callers an issuer remembers.

use super::*;
use crate::net::digest::sha256;
use crate::policy::auth::document::DocumentFetcher;
use crate::policy::auth::jwks::TokenIssuer;
use crate::telemetry::Metrics;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

async fn verify(issuer: &TokenIssuer, text: &str, now: SystemTime) -> Result<Arc<Identity>, AuthReason> {
    let token = UnverifiedToken::parse(text.as_bytes())?;
    issuer.verify(token, sha256(text.as_bytes()), now).await
}

/// Times, and the text down to its last character, are checked for every request.
#[tokio::test]
async fn recalls_a_caller_only_for_the_same_token_and_within_its_times() {
    let secret = Secret::new(str::from_utf8(SECRET).expect("UTF-8"));
    let settings = IssuerConfig {
        keys: IssuerKeysConfig::Secret(secret),
        algorithms: vec![Algorithm::ALL.iter().copied().find(|one| one.name() == "HS256").expect("known")],
        ..issuer()
    };
    let metrics = Metrics::new().expect("unique names");
    let new_issuer = || TokenIssuer::new(&settings, &DocumentFetcher::new(), &metrics).expect("a secret");
    let issuer = new_issuer();
    let text = token(&header("HS256"), &claims().to_string(), "HS256");
    let recall = |issuer: &TokenIssuer, text: &str, now| {
        let known = issuer.recall(&sha256(text.as_bytes()), at(now));
        known.map(|known| known.map(|identity| identity.subject.clone()))
    };
    assert_eq!(recall(&issuer, &text, NOW), None);
    // A refused token is not remembered.
    assert_eq!(verify(&issuer, &text, at(NOW + 65)).await.err(), Some(AuthReason::Expired));
    assert_eq!(recall(&issuer, &text, NOW), None);
    let verified = verify(&issuer, &text, at(NOW)).await.expect("accepted");
    for (now, expected) in [
        (NOW, Ok("ada".to_owned())),
        (NOW + 64, Ok("ada".to_owned())),
        // `exp` with 5 s of leeway
        (NOW + 65, Err(AuthReason::Expired)),
        (NOW - 65, Ok("ada".to_owned())),
        (NOW - 66, Err(AuthReason::NotYetValid)),
    ] {
        assert_eq!(verify(&issuer, &text, at(now)).await.map(|identity| identity.subject.clone()), expected, "{now}");
        assert_eq!(recall(&issuer, &text, now), Some(expected), "{now}");
    }
    assert_eq!(verified.expires, Some(at(NOW + 65)));
    let (rest, last) = text.split_at(text.len() - 1);
    let other = if last == "A" { "B" } else { "A" };
    for changed in [format!("{rest}{other}"), format!("{text}A"), rest.to_owned(), format!("{text}.")] {
        assert_eq!(recall(&issuer, &changed, NOW), None, "{changed}");
    }
    assert_eq!(recall(&new_issuer(), &text, NOW), None);
}
