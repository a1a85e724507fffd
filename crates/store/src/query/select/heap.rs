//! A binary heap that orders equal items as Go's `container/heap` does.
//!
//! Points of several series at one time come out of InfluxDB in the order in which its heap
//! leaves them; whoever compares answers sees that order.

/// A heap; the order is given with each call and must stay the same.
#[derive(Debug)]
pub(super) struct Heap<T>(Vec<T>);

impl<T> Heap<T> {
    /// A heap of some items.
    pub(super) fn new(items: Vec<T>, before: impl Fn(&T, &T) -> bool) -> Self {
        let mut heap = Self(items);
        let len = heap.0.len();
        for at in (0..len / 2).rev() {
            heap.down(at, len, &before);
        }
        heap
    }

    /// Takes the first item out.
    pub(super) fn pop(&mut self, before: impl Fn(&T, &T) -> bool) -> Option<T> {
        let last = self.0.len().checked_sub(1)?;
        self.0.swap(0, last);
        self.down(0, last, &before);
        self.0.pop()
    }

    /// Puts an item in.
    pub(super) fn push(&mut self, item: T, before: impl Fn(&T, &T) -> bool) {
        self.0.push(item);
        let mut at = self.0.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if !before(&self.0[at], &self.0[parent]) {
                break;
            }
            self.0.swap(at, parent);
            at = parent;
        }
    }

    fn down(&mut self, mut at: usize, len: usize, before: &impl Fn(&T, &T) -> bool) {
        loop {
            let left = 2 * at + 1;
            if left >= len {
                return;
            }
            let right = left + 1;
            let first =
                if right < len && before(&self.0[right], &self.0[left]) { right } else { left };
            if !before(&self.0[first], &self.0[at]) {
                return;
            }
            self.0.swap(at, first);
            at = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_order_and_equal_ones_as_gos_heap_has_them() {
        let before = |a: &(i32, char), b: &(i32, char)| a.0 < b.0;
        let mut heap = Heap::new(vec![(2, 'a'), (1, 'b'), (1, 'c'), (1, 'd')], before);
        heap.push((0, 'e'), before);
        let order: String = std::iter::from_fn(|| heap.pop(before)).map(|(_, c)| c).collect();
        assert_eq!(order.len(), 5);
        assert!(order.starts_with('e') && order.ends_with('a'));
    }
}
