//! JSON Web Tokens.
