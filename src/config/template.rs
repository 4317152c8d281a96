//! Path templates with thread and run ids: `/runs/{thread_id}/events`.
//!
//! Ids are percent-encoded in agent paths and percent-decoded from client paths.

/// Maximum length of an id in bytes; ids are kept in memory.
const ID_LIMIT: usize = 1 << 10;

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

    /// Returns the thread or run id in a request path: an outer `None` if the path does not match, an inner `None` if the
    /// segment is not percent-encoded UTF-8, has control characters or is too long.
    #[must_use]
    pub(crate) fn extract_id(&self, path: &str) -> Option<Option<String>> {
        let (before, after) = self.prefix_and_suffix()?;
        let segment = path.strip_prefix(before)?.strip_suffix(after)?;
        (!segment.is_empty() && !segment.contains('/')).then(|| percent_decode(segment))
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

/// Encodes all but the unreserved characters of RFC 3986 §2.3.
pub(super) fn percent_encode(text: &str) -> String {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte: u8| if is_unreserved(byte) { char::from(byte).into() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

fn percent_decode(segment: &str) -> Option<String> {
    if segment.len() > 3 * ID_LIMIT {
        return None;
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    let hex = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' { hex(rest.next()?)? << 4 | hex(rest.next()?)? } else { byte });
    }
    let id = String::from_utf8(bytes).ok()?;
    (id.len() <= ID_LIMIT && !id.chars().any(char::is_control)).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(events.extract_id(path), Some(Some(id.to_owned())));
        }
        for id in ["", ".", ".."] {
            assert_eq!(events.fill(id, "r"), None, "{id:?}");
        }
        let both = template("/events?thread={thread_id}&run={run_id}");
        assert_eq!(both.fill("t&1", "r=2").as_deref(), Some("/events?thread=t%261&run=r%3D2"));
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
            assert_eq!(events.extract_id(&format!("/runs/{odd}/events")), Some(None), "{odd}");
        }
        assert_eq!(template("/runs/{thread_id}").extract_id("/runs/%2525"), Some(Some("%25".to_owned())));
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
