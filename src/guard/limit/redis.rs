//! Quotas that replicas count together.
