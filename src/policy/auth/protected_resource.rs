//! The gateway's OAuth 2.0 protected resource metadata (RFC 9728).

use crate::config::RouteConfig;
use serde_json::json;
use std::collections::HashMap;

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

pub(super) struct ProtectedResource {
    /// `https://gateway.example` for `https://gateway.example/base`
    origin: String,
    /// `/base`, or empty
    base: String,
    /// documents by URL path
    documents: HashMap<String, String>,
}

impl ProtectedResource {
    /// Builds the documents. `issuer` maps an issuer's name to its identifier.
    pub(crate) fn new<'c>(
        url: &str,
        routes: &[RouteConfig],
        issuer: impl Fn(&str) -> Option<&'c str>,
    ) -> ProtectedResource {
        let authority = url.find("://").map_or(0, |scheme| scheme + "://".len());
        let path = url[authority..].find('/').map_or(url.len(), |slash| authority + slash);
        let mut resource = ProtectedResource {
            origin: url[..path].to_owned(),
            base: url[path..].trim_end_matches('/').to_owned(),
            documents: HashMap::new(),
        };
        let mut all_issuers = Vec::new();
        let mut all_scopes = Vec::new();
        for route in routes {
            let issuers: Vec<_> = route.access.methods.iter().filter_map(|name| issuer(name)).collect();
            let scopes: Vec<_> = route.access.require.scopes.iter().map(String::as_str).collect();
            if !issuers.is_empty() {
                resource.add_document(&route.path, &issuers, &scopes);
                all_issuers.extend(issuers);
                all_scopes.extend(scopes);
            }
        }
        if !all_issuers.is_empty() {
            resource.add_document("", &all_issuers, &all_scopes);
        }
        resource
    }

    /// Adds the document for the route at `path` (section 2).
    fn add_document(&mut self, path: &str, issuers: &[&str], scopes: &[&str]) {
        let distinct = |all: &[&str]| {
            let mut all: Vec<String> = all.iter().map(|&one| one.to_owned()).collect();
            all.sort();
            all.dedup();
            all
        };
        let mut document = json!({
            "resource": format!("{}{}{path}", self.origin, self.base),
            // "issuer identifiers, as defined in RFC 8414": URLs. An issuer with a shared secret may have no URL.
            "authorization_servers": distinct(issuers).into_iter().filter(|one| one.contains("://")).collect::<Vec<_>>(),
            "bearer_methods_supported": ["header"],
        });
        if !scopes.is_empty() {
            document["scopes_supported"] = distinct(scopes).into();
        }
        self.documents.insert(format!("{WELL_KNOWN}{}{path}", self.base), document.to_string());
    }

    /// Returns the URL of a route's document, whose well-known path is "between the host component and the path"
    /// (section 3.1).
    pub(super) fn metadata_url(&self, path: &str) -> Option<String> {
        let at = format!("{WELL_KNOWN}{}{path}", self.base);
        self.documents.contains_key(&at).then(|| format!("{}{at}", self.origin))
    }

    pub(crate) fn document(&self, path: &str) -> Option<&str> {
        self.documents.get(path).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the example of RFC 9728, section 3.1: `https://resource.example.com/resource1` has its metadata at
    /// `https://resource.example.com/.well-known/oauth-protected-resource/resource1`.
    #[test]
    fn puts_the_metadata_path_between_host_and_resource() {
        for (url, at, resource) in [
            ("https://resource.example.com", "", "https://resource.example.com/resource1"),
            ("https://resource.example.com:8443/a/b", "/a/b", "https://resource.example.com:8443/a/b/resource1"),
        ] {
            let mut known = ProtectedResource::new(url, &[], |_| None);
            known.add_document(
                "/resource1",
                &["https://b.example", "https://a.example", "shared", "https://a.example"],
                &[],
            );
            let path = format!("/.well-known/oauth-protected-resource{at}/resource1");
            let origin = url.strip_suffix(at).expect("an origin");
            assert_eq!(known.metadata_url("/resource1").as_deref(), Some(&*format!("{origin}{path}")));
            let document: serde_json::Value =
                serde_json::from_str(known.document(&path).expect("a document")).expect("JSON");
            let expected = json!({
                "resource": resource, "bearer_methods_supported": ["header"],
                "authorization_servers": ["https://a.example", "https://b.example"],
            });
            assert_eq!(document, expected);
            assert_eq!((known.metadata_url("/other"), known.document("/")), (None, None));
        }
    }
}
