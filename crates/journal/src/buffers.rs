//! Memory that held records and is kept to hold others.

use std::sync::Mutex;

use crate::threads::lock;

/// How many bytes of memory are kept.
const BYTES_MAX: usize = 16 << 20;
/// How many buffers are kept.
const BUFFERS_MAX: usize = 64;

/// Empty buffers that have grown before.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl BufferPool {
    /// An empty buffer, used before if there is one.
    pub fn take(&self) -> Vec<u8> {
        lock(&self.buffers).pop().unwrap_or_default()
    }

    /// Takes a buffer back, or frees it where enough is kept.
    pub fn put_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut buffers = lock(&self.buffers);
        let kept: usize = buffers.iter().map(Vec::capacity).sum();
        if kept + buffer.capacity() <= BYTES_MAX && buffers.len() < BUFFERS_MAX {
            buffers.push(buffer);
        }
    }

    /// Frees all of it.
    pub fn shrink(&self) {
        *lock(&self.buffers) = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::{BUFFERS_MAX, BYTES_MAX, BufferPool};

    /// The capacities of all that is kept.
    fn drained(pool: &BufferPool) -> Vec<usize> {
        let all = std::iter::repeat_with(|| pool.take().capacity());
        all.take_while(|capacity| *capacity > 0).collect()
    }

    #[test]
    fn a_buffer_comes_back_empty_with_its_memory() {
        let pool = BufferPool::default();
        let mut buffer = Vec::with_capacity(100);
        buffer.extend_from_slice(b"records");
        pool.put_back(buffer);
        let buffer = pool.take();
        assert_eq!((buffer.len(), buffer.capacity()), (0, 100));
        assert_eq!(pool.take().capacity(), 0, "there was one");
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes_and_in_number() {
        let pool = BufferPool::default();
        for len in [BYTES_MAX / 2, BYTES_MAX / 2 + 1, BYTES_MAX / 2, 1] {
            pool.put_back(Vec::with_capacity(len));
        }
        assert_eq!(drained(&pool), [BYTES_MAX / 2, BYTES_MAX / 2], "to the last byte");
        for _ in 0..BUFFERS_MAX + 1 {
            pool.put_back(Vec::with_capacity(1));
        }
        assert_eq!(drained(&pool).len(), BUFFERS_MAX);
    }

    #[test]
    fn what_is_given_up_is_gone() {
        let pool = BufferPool::default();
        pool.put_back(Vec::with_capacity(100));
        pool.shrink();
        assert!(drained(&pool).is_empty());
    }
}
