//! The keys of issuers: files, JWKS at a URL, OIDC discovery.
