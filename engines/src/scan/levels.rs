//! Open brackets of a value, one bit each: nesting costs memory, not stack.

/// Deepest nesting inside one member's value, in levels.
///
/// At one bit a level this is 1 MiB, an eighth of what a fork may use (architecture, "What may
/// cost what"); hostile inputs of 5 000 000 levels (reliability §3) stay below it.
pub const DEPTH_LIMIT: usize = 8 * 1024 * 1024;

const WORD_BITS: usize = 64;

/// A stack of bits: set for an object, clear for an array.
#[derive(Debug, Default)]
pub(super) struct Levels {
    words: Vec<u64>,
    depth: usize,
}

impl Levels {
    pub(super) fn clear(&mut self) {
        self.depth = 0;
    }

    /// Opens a level; `false` when the limit is reached.
    #[inline]
    pub(super) fn push(&mut self, is_object: bool) -> bool {
        if self.depth == DEPTH_LIMIT {
            return false;
        }
        let (word, bit) = (self.depth / WORD_BITS, self.depth % WORD_BITS);
        if word == self.words.len() {
            self.words.push(0);
        }
        self.words[word] = self.words[word] & !(1 << bit) | u64::from(is_object) << bit;
        self.depth += 1;
        true
    }

    /// Closes the innermost level.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.depth -= 1;
    }

    /// Whether the innermost level is an object; `None` when all are closed.
    #[inline]
    pub(super) fn innermost_is_object(&self) -> Option<bool> {
        let top = self.depth.checked_sub(1)?;
        Some(self.words[top / WORD_BITS] >> (top % WORD_BITS) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_each_level_across_words() {
        let mut levels = Levels::default();
        // The second round runs over the bits that the first one left behind.
        for odd in [0, 1] {
            for depth in 0..1000 {
                assert!(levels.push(depth % 3 == odd));
            }
            for depth in (0..1000).rev() {
                assert_eq!(levels.innermost_is_object(), Some(depth % 3 == odd), "{depth}");
                levels.pop();
            }
            assert_eq!(levels.innermost_is_object(), None);
        }
    }

    #[test]
    fn refuses_one_level_more_than_the_limit() {
        let mut levels = Levels::default();
        assert!((0..DEPTH_LIMIT).all(|_| levels.push(true)));
        assert!(!levels.push(true));
        assert_eq!(levels.words.len() * 8, 1024 * 1024);
    }
}
