//! Which of a fixed number of things are free: one bit each, claimed for a whole warp by one read-modify-write.

use crate::word::DeviceWord64;

// Items per word of a [`FreeSet`].
pub(crate) const WORD_BITS: u32 = 64;

/// A set of free items, numbered from 0. Bit `i` of word `w` is set while item `64 w + i` is free.
///
/// A set bit has no owner. A cleared bit belongs to the lane that cleared it, until that lane sets it again.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct FreeSet {
    words: *const DeviceWord64,
    word_count: u32,
}

// SAFETY:
// - the pointer is to words that are shared by design and outlive the set, by `FreeSet::new`'s contract
#[expect(unsafe_code, reason = "a shared table behind a pointer")]
unsafe impl Sync for FreeSet {}
// SAFETY:
// - as for `Sync`: nothing in the set belongs to a thread
#[expect(unsafe_code, reason = "a shared table behind a pointer")]
unsafe impl Send for FreeSet {}

/// Items of one word of a [`FreeSet`], claimed together. At least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a claim that is dropped is never free again"]
pub struct Claim {
    /// Which word.
    pub word: u32,
    /// Which of its items.
    pub bits: u64,
}

impl Claim {
    /// How many items, 1 to 64.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.bits.count_ones()
    }
    /// The item of this rank, counting from the lowest; `rank` is below [`Claim::count`].
    #[must_use]
    pub const fn item(self, rank: u32) -> u32 {
        let mut bits = self.bits;
        let mut left = rank;
        while left > 0 {
            bits &= bits - 1;
            left -= 1;
        }
        self.word * WORD_BITS + bits.trailing_zeros()
    }
    /// The claim of `count` items (1 to 64) of one word, from `first` on.
    pub const fn run(first: u32, count: u32) -> Self {
        Self { word: first / WORD_BITS, bits: (u64::MAX >> (WORD_BITS - count)) << (first % WORD_BITS) }
    }
    /// The claim of one item alone.
    pub const fn single(item: u32) -> Self {
        Self { word: item / WORD_BITS, bits: 1 << (item % WORD_BITS) }
    }
}

/// Where a claim goes back to, by [`FreeSet::place`]. It is copied out of the set and not looked at before it is used, so that what it is copied from
/// is on its way while the lane does something else.
#[derive(Debug)]
#[must_use = "a claim that is dropped is never free again"]
pub struct FreePlace {
    set: FreeSet,
    claim: Claim,
}

impl FreePlace {
    /// [`FreeSet::release`], behind a [`release_fence`](crate::word::release_fence): one does for several.
    #[inline]
    pub fn release_fenced(self) {
        let Self { set, claim: Claim { word, bits } } = self;
        if cfg!(debug_assertions) {
            let before = set.word(word).fetch_set_bits(bits);
            assert_eq!(before & bits, 0, "an item was released twice");
        } else {
            // ORDERING: release by the caller's fence, device, partner `claim`.
            set.word(word).set_bits_fenced(bits);
        }
    }
}

impl FreeSet {
    /// Words that a set of `items` needs.
    #[must_use]
    pub const fn words_for(items: u32) -> u32 {
        items.div_ceil(WORD_BITS)
    }
    /// The initial value of word `word` of a set of `items`, all free.
    #[must_use]
    pub const fn initial_word(items: u32, word: u32) -> u64 {
        let before = word * WORD_BITS;
        match items.saturating_sub(before) {
            0 => 0,
            left if left >= WORD_BITS => u64::MAX,
            left => (1 << left) - 1,
        }
    }

    /// Items that the set has at most: it may have fewer in its last word.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.word_count * WORD_BITS
    }

    /// The set over `word_count` words at `words`.
    ///
    /// # Safety
    /// `words` points to `word_count` words that stay valid as long as the set, on every device that uses it.
    #[must_use]
    #[expect(unsafe_code, reason = "a shared table behind a pointer")]
    pub const unsafe fn new(words: *const DeviceWord64, word_count: u32) -> Self {
        Self { words, word_count }
    }

    fn word(&self, index: u32) -> &DeviceWord64 {
        assert!(index < self.word_count, "an item is below the size of its set");
        // SAFETY:
        // - the index was checked
        // - the words are valid, by `FreeSet::new`'s contract
        #[expect(unsafe_code, reason = "a shared table behind a pointer")]
        unsafe {
            &*self.words.add(index as usize)
        }
    }

    /// Claims up to `wanted` items (1 to 64) of one word, beginning the search at word `hint`; `None` if none was found free.
    ///
    /// Any one lane. Goes over the words once and waits for nothing: a word is tried again only while others take from it what
    /// this call reached for.
    pub fn claim(&self, wanted: u32, hint: u32) -> Option<Claim> {
        for step in 0..self.word_count {
            // Reduced before the sum: past 2³² the remainders would jump and pass over words.
            let word = (hint % self.word_count + step) % self.word_count;
            // ORDERING: relaxed: a hint, confirmed by the read-modify-write below.
            let mut seen = self.word(word).peek();
            // Ends: bounded. A round that takes nothing has lost each item it reached for to another claim.
            for _ in 0..WORD_BITS {
                let bits = lowest(seen, wanted);
                if bits == 0 {
                    break;
                }
                // ORDERING: acquire, device, partner `release`: what the items' last owner did comes before.
                let before = self.word(word).claim_bits(bits);
                let taken = before & bits;
                if taken != 0 {
                    return Some(Claim { word, bits: taken });
                }
                seen = before;
            }
        }
        None
    }

    /// Claims one item; `None` if none was found free. `hint` says where in which word the search begins, so that callers with different
    /// hints do not reach for the same item.
    ///
    /// Any one lane. Waits for nothing, as [`FreeSet::claim`].
    pub fn claim_one(&self, hint: u32) -> Option<Claim> {
        // Once: a division is a tenth of a microsecond of a lane's. There are sets without words.
        let words = self.word_count.max(1);
        let (mut word, turn) = (hint % words, hint / words % WORD_BITS);
        for _ in 0..self.word_count {
            // The first is a guess, which tells what is free where it is wrong.
            let mut bit = 1 << turn;
            // Ends: bounded. After the guess, a round that takes nothing has lost the item it reached for to another claim.
            for _ in 0..=WORD_BITS {
                // ORDERING: acquire, device, partner `release`: what the item's last owner did comes before.
                let before = self.word(word).claim_bits(bit);
                if before & bit != 0 {
                    return Some(Claim { word, bits: bit });
                }
                bit = lowest(before.rotate_right(turn), 1).rotate_left(turn);
                if bit == 0 {
                    break;
                }
            }
            word = self.after(word);
        }
        None
    }

    /// Claims `item`; whether it was free. Any one lane. Waits for nothing.
    #[must_use]
    pub fn claim_item(&self, item: u32) -> bool {
        let claim = Claim::single(item);
        // ORDERING: acquire, device, partner `release`: what the item's last owner did comes before.
        self.word(claim.word).claim_bits(claim.bits) & claim.bits != 0
    }

    /// Claims `length` neighbouring items (a power of two up to 64), the first a multiple of `length`, beginning the search at word
    /// `hint`; `None` if no such run was found free.
    ///
    /// Any one lane. Tries each place once: it waits for nothing.
    ///
    /// # Panics
    /// In debug builds, if `length` is not a power of two up to 64.
    pub fn claim_run(&self, length: u32, hint: u32) -> Option<Claim> {
        debug_assert!(length.is_power_of_two() && length <= WORD_BITS);
        let run = u64::MAX >> (WORD_BITS - length);
        let mut word = hint % self.word_count.max(1);
        for _ in 0..self.word_count {
            // ORDERING: relaxed: a hint, confirmed by the read-modify-write below.
            let seen = self.word(word).peek();
            for place in (0..WORD_BITS).step_by(length as usize) {
                let bits = run << place;
                if seen & bits != bits {
                    continue;
                }
                // ORDERING: acquire, device, partner `release`: what the items' last owner did comes before.
                let got = self.word(word).claim_bits(bits) & bits;
                if got == bits {
                    return Some(Claim { word, bits });
                }
                if got != 0 {
                    self.release(Claim { word, bits: got });
                }
            }
            word = self.after(word);
        }
        None
    }

    /// The word after `word`, round the set.
    const fn after(&self, word: u32) -> u32 {
        if word + 1 == self.word_count { 0 } else { word + 1 }
    }

    /// Gives a claim, or a part of one, back.
    pub fn release(&self, claim: Claim) {
        // ORDERING: release, device, partner `claim`; both.
        if cfg!(debug_assertions) {
            let before = self.word(claim.word).fetch_set_bits(claim.bits);
            assert_eq!(before & claim.bits, 0, "an item was released twice");
        } else {
            self.word(claim.word).set_bits(claim.bits);
        }
    }

    /// Where a claim goes back to, copied before the time comes.
    pub const fn place(&self, claim: Claim) -> FreePlace {
        FreePlace { set: *self, claim }
    }

    /// Makes the first `items` free, in a set whose words are zero: what a new set begins with. Its only user so far.
    pub fn release_all(&self, items: u32) {
        for word in 0..Self::words_for(items) {
            // ORDERING: relaxed: the set is handed to other threads afterwards.
            self.word(word).set(Self::initial_word(items, word));
        }
    }

    /// Takes the first `items` out of the set, for good. Before it is used.
    pub fn withhold(&self, items: u32) {
        for word in 0..Self::words_for(items) {
            // ORDERING: relaxed: as in `release_all`.
            let rest = self.word(word).peek() & !Self::initial_word(items, word);
            self.word(word).set(rest);
        }
    }

    /// How many items are free. Stale as soon as it is returned; exact while no lane claims or releases.
    #[must_use]
    pub fn free(&self) -> u32 {
        // ORDERING: relaxed: a statistic.
        (0..self.word_count).map(|word| self.word(word).peek().count_ones()).sum()
    }

    /// Whether `item` is free. As stale as [`FreeSet::free`].
    #[must_use]
    pub fn is_free(&self, item: u32) -> bool {
        // ORDERING: relaxed: a statistic.
        self.word(item / WORD_BITS).peek() >> (item % WORD_BITS) & 1 == 1
    }
}

/// The lowest `wanted` set bits of `word`, or all if there are fewer.
const fn lowest(word: u64, wanted: u32) -> u64 {
    let mut rest = word;
    let mut left = wanted;
    while left > 0 && rest != 0 {
        rest &= rest - 1;
        left -= 1;
    }
    word ^ rest
}
