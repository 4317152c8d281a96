//! Quotas that this process counts by itself.
