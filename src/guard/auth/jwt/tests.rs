//! Tokens that have to be refused, and those that must not be.
