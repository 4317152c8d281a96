//! The limits with a clock of the tests.
