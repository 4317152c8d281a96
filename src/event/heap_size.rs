//! The memory that values take outside of themselves, for limits on what is kept of a run.
//!
//! Most values are much shorter than what their lists and maps allocate for them, so texts alone do not bound memory.

/// Returns the memory of an allocation of `bytes`: allocators round up by an eighth on average, and to at least 16.
pub(crate) const fn allocation_size(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + bytes / 8).next_multiple_of(16) }
}

/// Returns the memory of a list that has room for `capacity` elements, without what they refer to.
pub(crate) const fn list_size<T>(capacity: usize) -> usize {
    allocation_size(capacity * size_of::<T>())
}

/// Returns the memory of a hash table that has room for `capacity` entries: at most 7 of 8 places are used, each with a
/// byte of control.
pub(crate) const fn table_size<Entry>(capacity: usize) -> usize {
    (capacity * 8).div_ceil(7) * (size_of::<Entry>() + 1)
}

/// Returns the memory of a B-tree, without what its entries refer to. A node has 11 places, of which insertions in
/// order leave half unused.
pub(crate) const fn tree_size<Entry>(entries: usize) -> usize {
    let places = if 0 < entries && entries < 6 { 11 } else { 2 * entries };
    places * size_of::<Entry>()
}
