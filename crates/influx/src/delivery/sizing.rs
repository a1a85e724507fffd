//! How large batches are: as large as configured, unless the backend shows that it takes less.
//! Pure.

use super::batch::Limits;

/// Batches never become smaller than this by learning.
const BYTES_MIN: usize = 1024;

/// What is known about the batches a backend takes.
#[derive(Debug, Clone)]
pub struct Sizing {
    configured: Limits,
    /// Below the smallest request that was too large, until the next start.
    ceiling: usize,
    now: Limits,
}

impl Sizing {
    /// Begins with batches as large as configured.
    pub fn new(configured: Limits) -> Self {
        Self { configured, ceiling: configured.bytes, now: configured }
    }

    /// How large the next batch may be.
    pub fn limits(&self) -> Limits {
        self.now
    }

    /// A request of so many bytes was too large (413). The ceiling goes well below it, since
    /// creeping up to the true limit would provoke another 413 each time.
    pub fn too_large(&mut self, bytes: usize) {
        self.ceiling = self.ceiling.min(bytes - bytes / 4).max(BYTES_MIN);
        self.now.bytes = self.now.bytes.min(bytes / 2).max(BYTES_MIN);
    }

    /// A request of so many points and bytes took too long or was too much.
    pub fn too_much(&mut self, points: u64, bytes: usize) {
        self.now.points = self.now.points.min(points / 2).max(1);
        self.now.bytes = self.now.bytes.min(bytes / 2).max(BYTES_MIN);
    }

    /// A whole batch was accepted at once: the next may be larger by an eighth.
    pub fn accepted(&mut self) {
        if self.now == self.configured {
            return;
        }
        self.now.points = (self.now.points + self.now.points / 8 + 1).min(self.configured.points);
        self.now.bytes = (self.now.bytes + self.now.bytes / 8 + 1).min(self.ceiling);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURED: Limits = Limits { points: 10_000, bytes: 4 << 20 };

    #[test]
    fn a_413_is_not_provoked_again() {
        let mut sizing = Sizing::new(CONFIGURED);
        sizing.too_large(1 << 20);
        assert_eq!(sizing.limits().bytes, 1 << 19);
        for _ in 0..100 {
            sizing.accepted();
        }
        assert_eq!(sizing.limits().bytes, 3 << 18);
    }

    #[test]
    fn after_overload_batches_grow_back() {
        let mut sizing = Sizing::new(CONFIGURED);
        for _ in 0..100 {
            let Limits { points, bytes } = sizing.limits();
            sizing.too_much(points, bytes);
        }
        assert_eq!(sizing.limits(), Limits { points: 1, bytes: BYTES_MIN });
        for _ in 0..200 {
            sizing.accepted();
        }
        assert_eq!(sizing.limits(), CONFIGURED);
    }
}
