//! Negotiates stream framings with clients and agents, and detects the dialect of a client.

use crate::codec::Framing;
use crate::dialect::{AG_UI, PeerDialect};
use crate::error::{Rejection, RejectionKind};
use crate::translate::detect;
use http::{HeaderMap, header};

/// Returns the framings that a dialect supports. Only canonical AG-UI supports protobuf.
pub(super) fn supported_framings(side: PeerDialect) -> &'static [Framing] {
    if side.is_auto || side.dialect.is_canonical() { &[Framing::Sse, Framing::Proto] } else { &[Framing::Sse] }
}

/// Negotiates the response framing.
///
/// Protobuf must be requested by name, since clients that send `*/*` expect event streams, and protobuf has no
/// keep-alives. At equal weight the first name wins: `HttpAgent` appends `text/event-stream` to the application's
/// value, so only the order shows a preference.
pub(super) fn negotiate(headers: &HeaderMap, client: PeerDialect) -> Result<Framing, Rejection> {
    if !headers.contains_key(header::ACCEPT) {
        return Ok(Framing::Sse);
    }
    let mut best = None;
    let mut best_weight = 0.0;
    let mut accepts_any = false;
    for (media, weight) in accept_ranges(headers) {
        let named = supported_framings(client).iter().copied().find(|framing| framing.media_type() == media);
        // "The most specific reference has precedence" [RFC 9110 §12.5.1]: a wildcard does not outrank a name.
        if named.is_some() && weight > best_weight {
            best = named;
            best_weight = weight;
        }
        accepts_any |= matches!(media.as_str(), "text/*" | "*/*") && weight > 0.0;
    }
    best.or(accepts_any.then_some(Framing::Sse)).ok_or_else(|| RejectionKind::NotAcceptable.into())
}

/// Negotiates the first request of a two-step run, which is answered with JSON. `Accept` may already name the framing
/// of the events.
pub(super) fn negotiate_start(headers: &HeaderMap, client: PeerDialect) -> Result<Framing, Rejection> {
    let json = accept_ranges(headers)
        .any(|(media, weight)| matches!(media.as_str(), "application/json" | "application/*") && weight > 0.0);
    if json { Ok(Framing::Sse) } else { negotiate(headers, client) }
}

fn accept_ranges(headers: &HeaderMap) -> impl Iterator<Item = (String, f32)> {
    // Multiple lines of a field form one list [RFC 9110 §5.3].
    let lines = headers.get_all(header::ACCEPT).iter();
    lines.flat_map(|line| line.to_str().unwrap_or_default().split(',')).map(parse_media_range)
}

/// Returns the lower-case media type and the weight of an `Accept` range.
fn parse_media_range(range: &str) -> (String, f32) {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default().to_ascii_lowercase();
    let weight = parts
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
        // A weight of 0 means "not acceptable" [RFC 9110 §12.4.2]; an invalid weight is ignored.
        .and_then(|(_, weight)| weight.trim().parse::<f32>().ok());
    (media, weight.filter(|weight| !weight.is_nan()).unwrap_or(1.0))
}

/// Returns the client's dialect and how it was detected.
pub(super) fn detect_client(client: PeerDialect, framing: Framing, body: &[u8]) -> (PeerDialect, Option<&'static str>) {
    if !client.is_auto {
        return (client, None);
    }
    let found = match framing {
        Framing::Proto => {
            detect::DetectedDialect { peer: PeerDialect::new(&AG_UI), evidence: "it accepts protobuf (AG-UI 1.0)" }
        }
        // The translation rejects invalid UTF-8.
        Framing::Sse => detect::detect_request(std::str::from_utf8(body).unwrap_or_default()),
    };
    (found.peer, Some(found.evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{AG_UI, HAI};
    use http::HeaderValue;

    fn negotiated_framing(accept: &[&str], side: PeerDialect) -> Option<Framing> {
        let mut headers = HeaderMap::new();
        for line in accept {
            headers.append(header::ACCEPT, HeaderValue::from_str(line).expect("a value"));
        }
        negotiate(&headers, side).ok()
    }

    #[test]
    fn answers_protobuf_only_when_named_and_ranked_first() {
        const PROTO: &str = "application/vnd.ag-ui.event+proto";
        let (sse, proto) = (Some(Framing::Sse), Some(Framing::Proto));
        let rows: &[(&[&str], Option<Framing>, Option<Framing>)] = &[
            // Header lines, expected framing on an ag-ui route, and on a hai route.
            (&[], sse, sse),
            (&["*/*"], sse, sse),
            (&["text/*"], sse, sse),
            (&["application/*"], None, None),
            (&["application/json"], None, None),
            (&["text/event-stream"], sse, sse),
            (&["TEXT/Event-Stream; q=0.5"], sse, sse),
            (&["text/event-stream;q=0"], None, None),
            (&[PROTO], proto, None),
            (&["application/vnd.ag-ui.event+proto;q=0.1"], proto, None),
            (&["application/vnd.ag-ui.event+proto;q=0"], None, None),
            (&["application/vnd.ag-ui.event+proto;q=0, */*"], sse, sse),
            (&["application/vnd.ag-ui.event+proto, */*"], proto, sse),
            (&["application/vnd.ag-ui.event+proto;q=0.5", "*/*;q=0.9"], proto, sse),
            (&["text/event-stream, application/vnd.ag-ui.event+proto"], sse, sse),
            // Sent by the real client if the application sets the header.
            (&["application/vnd.ag-ui.event+proto, text/event-stream"], proto, sse),
            (&["text/event-stream;q=0.5, application/vnd.ag-ui.event+proto;q=0.9"], proto, sse),
            (&["text/event-stream;q=0.9", "application/vnd.ag-ui.event+proto;q=0.5"], sse, sse),
            (&["text/event-stream;q=0, application/vnd.ag-ui.event+proto;q=0.1"], proto, None),
        ];
        for (accept, ag_ui, hai) in rows {
            assert_eq!(negotiated_framing(accept, PeerDialect::new(&AG_UI)), *ag_ui, "{accept:?}");
            assert_eq!(negotiated_framing(accept, PeerDialect::new(&HAI)), *hai, "{accept:?}");
        }
    }
}
