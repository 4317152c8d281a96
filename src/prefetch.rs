//! Fetches memory that is needed soon.
//!
//! Between two events of a run, those of other runs have filled the processor's caches. What the next event touches is
//! spread over several allocations, and the run would wait for each line of them in turn; here the processor fetches
//! them together.

/// Number of bytes that the processor fetches at once.
const LINE: usize = 64;

/// Fetches all of `value`.
#[inline]
pub(crate) fn prefetch<T: ?Sized>(value: &T) {
    prefetch_start(value, usize::MAX);
}

/// Fetches the first `length` bytes of `value`, or all of it.
#[inline]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "the instruction takes an address"))]
pub(crate) fn prefetch_start<T: ?Sized>(value: &T, length: usize) {
    let start = std::ptr::from_ref(value).cast::<i8>();
    // The value may begin within a line.
    let before = start.addr() % LINE;
    for offset in (0..before + size_of_val(value).min(length)).step_by(LINE) {
        let line = start.wrapping_sub(before).wrapping_add(offset);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: "a hint", which changes nothing that the program sees, and fails at no address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line);
        }
        // Elsewhere, there is no stable function for it.
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}
