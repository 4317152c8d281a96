//! Path templates with thread and run ids: `/runs/{thread_id}/events`.
//!
//! Ids are percent-encoded in agent paths and percent-decoded from client paths. An id that an agent could decode to
//! other path segments is refused: see [`PathTemplate::fill_agent_path`].

use crate::codec::percent::{has_path_syntax, hex_digit, percent_encode};

/// Maximum length of an id in bytes; ids are kept in memory.
const ID_LIMIT: usize = 1 << 10;

/// A path segment that is not percent-encoded UTF-8, has control characters or is too long for an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidPathId;

pub(crate) type PathId = Result<String, InvalidPathId>;

/// A path with id placeholders. Agent paths may include a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathTemplate(Vec<TemplatePart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    ThreadId,
    RunId,
}

const PLACEHOLDERS: &[(&str, TemplatePart)] =
    &[("{thread_id}", TemplatePart::ThreadId), ("{run_id}", TemplatePart::RunId)];

impl PathTemplate {
    /// Parses a template. Returns `None` if it has no placeholder, or stray braces.
    pub(super) fn parse(text: &str) -> Option<PathTemplate> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, place) = rest.split_at(at);
            let (name, piece) = PLACEHOLDERS.iter().find(|(name, _)| place.starts_with(name))?;
            pieces.extend((!before.is_empty()).then(|| TemplatePart::Text(before.to_owned())));
            pieces.push(piece.clone());
            rest = &place[name.len()..];
        }
        if pieces.is_empty() {
            return None;
        }
        pieces.extend((!rest.is_empty()).then(|| TemplatePart::Text(rest.to_owned())));
        Some(PathTemplate(pieces))
    }

    /// Returns the request paths for resuming and stopping runs.
    #[must_use]
    pub(crate) fn for_runs(path: &str) -> [PathTemplate; 2] {
        let below = format!("{}/runs/", path.trim_end_matches('/'));
        ["/events", "/stop"].map(|what| {
            PathTemplate(vec![
                TemplatePart::Text(below.clone()),
                TemplatePart::RunId,
                TemplatePart::Text(what.to_owned()),
            ])
        })
    }

    /// Fills in the ids. Returns `None` if an id would change the path: an empty one, `.` or `..`.
    #[must_use]
    pub(crate) fn fill(&self, thread_id: &str, run_id: &str) -> Option<String> {
        let encode = |id: &str| (!matches!(id, "" | "." | "..")).then(|| percent_encode(id));
        let pieces = self.0.iter().map(|piece| match piece {
            TemplatePart::Text(text) => Some(text.clone()),
            TemplatePart::ThreadId => encode(thread_id),
            TemplatePart::RunId => encode(run_id),
        });
        pieces.collect()
    }

    /// Fills in the ids for a request to an agent. Returns `None` if [`PathTemplate::fill`] does, or if an id in the
    /// path could become other segments at a server that decodes it, even more than once. Ids in the query may be any.
    #[must_use]
    pub(crate) fn fill_agent_path(&self, thread_id: &str, run_id: &str) -> Option<String> {
        let mut in_path =
            self.0.iter().take_while(|part| !matches!(part, TemplatePart::Text(text) if text.contains('?')));
        let changes_path = in_path.any(|part| match part {
            TemplatePart::Text(_) => false,
            TemplatePart::ThreadId => has_path_syntax(thread_id),
            TemplatePart::RunId => has_path_syntax(run_id),
        });
        if changes_path { None } else { self.fill(thread_id, run_id) }
    }

    /// Returns the thread or run id in a request path, or `None` if the path does not match.
    #[must_use]
    pub(crate) fn extract_id(&self, path: &str) -> Option<PathId> {
        let (before, after) = self.prefix_and_suffix()?;
        let segment = path.strip_prefix(before)?.strip_suffix(after)?;
        (!segment.is_empty() && !segment.contains('/')).then(|| percent_decode(segment).ok_or(InvalidPathId))
    }

    pub(super) fn matches_path(&self, path: &str) -> bool {
        self.extract_id(path).is_some()
    }

    /// Returns whether a path could match both templates.
    pub(super) fn overlaps(&self, other: &PathTemplate) -> bool {
        let (Some((before, after)), Some((other_before, other_after))) =
            (self.prefix_and_suffix(), other.prefix_and_suffix())
        else {
            return false;
        };
        let whole = |before: &str, after: &str| format!("{before}\0{after}");
        let one = whole(before, after);
        let two = whole(other_before, other_after);
        let mut pairs = one.split('/').zip(two.split('/'));
        one.matches('/').count() == two.matches('/').count()
            && pairs.all(|(one, two)| one == two || one == "\0" || two == "\0")
    }

    /// Returns the text before and after the only placeholder.
    fn prefix_and_suffix(&self) -> Option<(&str, &str)> {
        match &*self.0 {
            [TemplatePart::Text(before), TemplatePart::ThreadId] => Some((before, "")),
            [TemplatePart::Text(before), TemplatePart::ThreadId | TemplatePart::RunId, TemplatePart::Text(after)] => {
                Some((before, after))
            }
            _ => None,
        }
    }
}

fn percent_decode(segment: &str) -> Option<String> {
    if segment.len() > 3 * ID_LIMIT {
        return None;
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' { hex_digit(rest.next()?)? << 4 | hex_digit(rest.next()?)? } else { byte });
    }
    let id = String::from_utf8(bytes).ok()?;
    (id.len() <= ID_LIMIT && !id.chars().any(char::is_control)).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::percent::MAX_DECODINGS;

    fn template(text: &str) -> PathTemplate {
        PathTemplate::parse(text).expect(text)
    }

    #[test]
    fn encodes_ids_into_paths_and_decodes_them_back() {
        let events = template("/runs/{thread_id}/events");
        for (id, path) in [
            ("t1", "/runs/t1/events"),
            ("a/b?c#d%2e", "/runs/a%2Fb%3Fc%23d%252e/events"),
            ("线 程", "/runs/%E7%BA%BF%20%E7%A8%8B/events"),
            ("...", "/runs/.../events"),
        ] {
            assert_eq!(events.fill(id, "r").as_deref(), Some(path));
            assert_eq!(events.extract_id(path), Some(Ok(id.to_owned())));
        }
        for id in ["", ".", ".."] {
            assert_eq!(events.fill(id, "r"), None, "{id:?}");
        }
        let both = template("/events?thread={thread_id}&run={run_id}");
        assert_eq!(both.fill("t&1", "r=2").as_deref(), Some("/events?thread=t%261&run=r%3D2"));
    }

    #[test]
    fn refuses_ids_that_a_decoding_agent_would_read_as_segments() {
        let (segment, query) = (template("/runs/{thread_id}/events"), template("/events?t={thread_id}"));
        for id in [
            "..",
            "a/b",
            "a\\b",
            "../../admin",
            "..%2Fx",
            "..%2fx",
            "a%5Cb",
            "%2e%2E",
            "%252e.",
            "a%25252Fb",
            "a%25%32%66b",
            "..;x",
            "..%3Bx",
            &format!("%{}41", "25".repeat(MAX_DECODINGS + 1)),
        ] {
            assert_eq!(segment.fill_agent_path(id, "r"), None, "{id}");
            assert!(id == ".." || query.fill_agent_path(id, "r").is_some(), "{id}");
        }
        // Also linear in time: an escape of an escape and so on.
        assert_eq!(segment.fill_agent_path(&format!("%{}2F", "25".repeat(1 << 20)), "r"), None);
        for id in ["t1", "a;b", "100%", "50%25", "..a", "a..b", "%zz", "线", "a%20b", "...", "a:b@c"] {
            assert_eq!(segment.fill_agent_path(id, "r"), segment.fill(id, "r"), "{id}");
        }
        let both = template("/t/{thread_id}?r={run_id}");
        assert_eq!(both.fill_agent_path("t", "a/b").as_deref(), Some("/t/t?r=a%2Fb"));
        assert_eq!(both.fill_agent_path("a/b", "r"), None);
    }

    #[test]
    fn distinguishes_other_paths_from_invalid_ids() {
        let events = template("/runs/{thread_id}/events");
        for other in [
            "/runs/events",
            "/runs//events",
            "/runs/a/b/events",
            "/runs/a/events/",
            "/runs/a",
            "/run/a/events",
            "/runs/events/",
        ] {
            assert_eq!(events.extract_id(other), None, "{other}");
        }
        let long = "x".repeat(ID_LIMIT + 1);
        for odd in ["%", "%2", "%zz", "%+1", "%ff", "a%00b", "%0a", "%c0%ae", &long] {
            assert_eq!(events.extract_id(&format!("/runs/{odd}/events")), Some(Err(InvalidPathId)), "{odd}");
        }
        assert_eq!(template("/runs/{thread_id}").extract_id("/runs/%2525"), Some(Ok("%25".to_owned())));
    }

    #[test]
    fn templates_that_match_the_same_path_overlap() {
        for (one, two, overlap) in [
            ("/a/{thread_id}/b", "/a/{thread_id}/b", true),
            ("/a/{thread_id}/b", "/a/x/{thread_id}", true),
            ("/a/{thread_id}", "/{thread_id}/b", true),
            ("/a/{thread_id}/b", "/a/{thread_id}/c", false),
            ("/a/{thread_id}", "/a/{thread_id}/b", false),
        ] {
            assert_eq!(template(one).overlaps(&template(two)), overlap, "{one} {two}");
            assert_eq!(template(two).overlaps(&template(one)), overlap, "{two} {one}");
        }
    }

    #[test]
    fn rejects_templates_without_a_valid_placeholder() {
        for text in ["/a", "/{thread}", "/{thread_id", "/thread_id}", "/{}", "/{{thread_id}}"] {
            assert_eq!(PathTemplate::parse(text), None, "{text}");
        }
    }
}
