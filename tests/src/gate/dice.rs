//! A small generator of random choices. One draw from proptest's source seeds one operation, so
//! that an operation depends on nothing but its seed and the state it was made for.

/// `SplitMix64`: one number of state, good enough to choose with.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a usize fits");
        usize::try_from(self.next() % end).expect("it is below a usize")
    }

    /// A number from `low` to `high`, both inclusive.
    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of these, of which there is at least one.
    pub(super) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let index = self.below(choices.len());
        choices.get(index).expect("the index is below the length")
    }

    /// One of these texts.
    pub(super) fn text(&mut self, choices: &[&'static str]) -> &'static str {
        self.pick::<&'static str>(choices)
    }

    /// One of these, if there is any.
    pub(super) fn pick_any<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        if choices.is_empty() { None } else { Some(self.pick(choices)) }
    }

    /// One of these, as often as its weight says.
    pub(super) fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let total = choices.iter().map(|(weight, _)| weight).sum();
        let mut at = self.below(total);
        for &(weight, choice) in choices {
            match at.checked_sub(weight) {
                Some(rest) => at = rest,
                None => return choice,
            }
        }
        unreachable!("the draw is below the sum of all weights")
    }
}
