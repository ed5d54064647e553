//! Buffers lent to connections while bytes move, and only then: an idle connection holds none.

use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

use super::lock;

/// The size of one buffer: the largest datagram fits.
pub(super) const SIZE: usize = 64 * 1024;
/// Buffers kept for the next one; what was lent beyond is freed when it comes back.
const KEPT: usize = 64;

/// The buffers that nobody uses now.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<Box<[u8]>>>);

/// A buffer on loan.
#[derive(Debug)]
pub(super) struct Buffer<'a> {
    bytes: Box<[u8]>,
    from: &'a Buffers,
}

impl Buffers {
    /// Lends a buffer with whatever was in it last.
    pub(super) fn lend(&self) -> Buffer<'_> {
        let kept = lock(&self.0).pop();
        Buffer { bytes: kept.unwrap_or_else(|| vec![0; SIZE].into_boxed_slice()), from: self }
    }
}

impl Deref for Buffer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let mut kept = lock(&self.from.0);
        if kept.len() < KEPT {
            kept.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_and_a_crowd_is_not_kept() {
        let buffers = Buffers::default();
        drop((0..KEPT + 5).map(|_| buffers.lend()).collect::<Vec<_>>());
        assert_eq!(lock(&buffers.0).len(), KEPT);
        let one = buffers.lend();
        assert_eq!((one.len(), lock(&buffers.0).len()), (SIZE, KEPT - 1));
    }
}
