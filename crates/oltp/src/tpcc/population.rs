//! How large a database is, and how random values are drawn (clauses 2.1.6, 4.3.2 and 4.3.3).

use super::schema::CustomerId;
use crate::Random;

/// How many rows there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses; each is a partition.
    pub warehouses: u32,
    /// Districts of a warehouse.
    pub districts: u8,
    /// Customers of a district, and orders that it is loaded with.
    pub customers: u32,
    /// Orders of a district that are not delivered when it is loaded.
    pub new_orders: u32,
    /// Items, each of which is in each warehouse's stock.
    pub items: u32,
}

impl Scale {
    /// The specification's numbers of rows.
    pub const fn full(warehouses: u32) -> Self {
        Self { warehouses, districts: 10, customers: 3000, new_orders: 900, items: 100_000 }
    }

    /// A hundredth of the rows, for tests. All transactions work as at full scale; conflicts are
    /// more frequent.
    pub const fn small(warehouses: u32) -> Self {
        Self { warehouses, districts: 10, customers: 30, new_orders: 9, items: 1000 }
    }

    /// The first order of a district that is loaded as not delivered.
    pub(super) fn first_new_order(&self) -> u32 {
        self.customers + 1 - self.new_orders
    }

    /// The greatest number that stands for a last name. Each is the name of some customer.
    fn last_names(&self) -> u64 {
        u64::from(self.customers.min(1000)) - 1
    }
}

/// Whole dollars in cents.
pub(super) const fn dollars(amount: i64) -> i64 {
    amount * 100
}

/// The most lines of an order.
pub(super) const MOST_LINES: usize = 15;

/// The constants C of NURand (clause 2.1.6), which are drawn once for a database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants {
    last_loaded: u64,
    last: u64,
    customer: u64,
    item: u64,
}

impl Constants {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, &[0xc0]);
        let last_loaded = random.below(256);
        // Clause 2.1.6.1 bounds how far the two are apart, so that the names that were frequent at
        // loading are not the frequent ones afterwards.
        let mut apart = random.within(65, 117);
        apart += u64::from(apart >= 96);
        apart += u64::from(apart >= 112);
        let last =
            if last_loaded + apart < 256 { last_loaded + apart } else { last_loaded - apart };
        Self { last_loaded, last, customer: random.below(1024), item: random.below(8192) }
    }

    /// A customer's number.
    pub(super) fn customer(&self, random: &mut Random, scale: &Scale) -> u32 {
        nurand(random, 1023, self.customer, 1, u64::from(scale.customers)) as u32
    }

    /// An item's number.
    pub(super) fn item(&self, random: &mut Random, scale: &Scale) -> u32 {
        nurand(random, 8191, self.item, 1, u64::from(scale.items)) as u32
    }

    /// The number of a last name that transactions ask for.
    pub(super) fn last_name(&self, random: &mut Random, scale: &Scale) -> u16 {
        nurand(random, 255, self.last, 0, scale.last_names()) as u16
    }

    /// The number of the last name of a customer that is loaded.
    fn loaded_last_name(&self, random: &mut Random, scale: &Scale, customer: u32) -> u16 {
        match u64::from(customer - 1) {
            number if number <= scale.last_names() => number as u16,
            _ => nurand(random, 255, self.last_loaded, 0, scale.last_names()) as u16,
        }
    }

    /// The names of a customer: the number of the last one, and the first one.
    pub(super) fn names(&self, seed: u64, scale: &Scale, id: CustomerId) -> (u16, [u8; 16]) {
        let CustomerId { warehouse, district, number } = id;
        let stream = [0x4a, warehouse.into(), district.into(), number.into()];
        let mut random = Random::new(seed, &stream);
        (self.loaded_last_name(&mut random, scale, number), letters(&mut random, 8))
    }
}

/// NURand(A, x, y): not uniform, from `low` to `high`.
fn nurand(random: &mut Random, a: u64, c: u64, low: u64, high: u64) -> u64 {
    let either = random.within(0, a) | random.within(low, high);
    (either + c) % (high - low + 1) + low
}

/// The last name that `number` stands for (clause 4.3.2.3).
pub(super) fn last_name(number: u16) -> [u8; 16] {
    const SYLLABLES: [&[u8]; 10] =
        [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];
    let mut name = [0; 16];
    let mut filled = 0;
    for digit in [number / 100, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[usize::from(digit)];
        name[filled..filled + syllable.len()].copy_from_slice(syllable);
        filled += syllable.len();
    }
    name
}

/// Random letters and digits, `least` to `N` of them, with zeros behind them.
pub(super) fn letters<const N: usize>(random: &mut Random, least: usize) -> [u8; N] {
    const SYMBOLS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    string(random, SYMBOLS, least)
}

/// `N` random digits.
pub(super) fn digits<const N: usize>(random: &mut Random) -> [u8; N] {
    string(random, b"0123456789", N)
}

fn string<const N: usize>(random: &mut Random, symbols: &[u8], least: usize) -> [u8; N] {
    let mut text = [0; N];
    let bytes = random.within(least as u64, N as u64) as usize;
    for eight in text[..bytes].chunks_mut(8) {
        // Each product gives a symbol in its upper half, and what is left of the randomness below.
        let mut word = random.word();
        for byte in eight {
            let product = u128::from(word) * symbols.len() as u128;
            *byte = symbols[(product >> 64) as usize];
            word = product as u64;
        }
    }
    text
}

/// The word in the data of a tenth of the items and stocks.
const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// I_DATA or S_DATA: 26 to 50 letters, with [`ORIGINAL`] in a tenth of them.
pub(super) fn data(random: &mut Random) -> [u8; 50] {
    let mut data: [u8; 50] = letters(random, 26);
    if random.percent(10) {
        let bytes = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
        let at = random.within(0, (bytes - ORIGINAL.len()) as u64) as usize;
        data[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    data
}

/// Two streets, city, state and ZIP code.
pub(super) fn address(random: &mut Random) -> [u8; 71] {
    let mut address = [0; 71];
    for at in [0, 20, 40] {
        address[at..at + 20].copy_from_slice(&letters::<20>(random, 10));
    }
    address[60..62].copy_from_slice(&letters::<2>(random, 2));
    address[62..66].copy_from_slice(&digits::<4>(random));
    address[66..].copy_from_slice(b"11111");
    address
}

/// Whether I_DATA or S_DATA has [`ORIGINAL`] in it. Compares words, since each order line asks.
pub(super) fn is_original(data: &[u8; 50]) -> bool {
    data.windows(ORIGINAL.len()).any(|window| window.first_chunk() == Some(ORIGINAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_made_of_syllables() {
        let text = |number| String::from_utf8(last_name(number).to_vec()).unwrap();
        assert_eq!(text(0), "BARBARBAR\0\0\0\0\0\0\0");
        assert_eq!(text(371), "PRICALLYOUGHT\0\0\0");
        assert_eq!(text(999), "EINGEINGEING\0\0\0\0");
    }

    #[test]
    fn the_constants_for_last_names_are_as_far_apart_as_the_clause_says() {
        for seed in 0..1000 {
            let constants = Constants::new(seed);
            let apart = constants.last.abs_diff(constants.last_loaded);
            assert!((65..=119).contains(&apart) && apart != 96 && apart != 112, "{constants:?}");
            assert!(constants.last < 256 && constants.last_loaded < 256);
        }
    }

    #[test]
    fn numbers_are_not_uniform_and_within_range() {
        let (scale, constants) = (Scale::full(1), Constants::new(3));
        let mut random = Random::new(1, &[]);
        let mut hits = vec![0_u32; scale.items as usize + 1];
        for _ in 0..200_000 {
            hits[constants.item(&mut random, &scale) as usize] += 1;
        }
        assert_eq!(hits[0], 0);
        hits.sort_unstable();
        let top: u32 = hits[hits.len() - 10_000..].iter().sum();
        assert!(top > 60_000, "a tenth of the items has {top} of 200,000 hits");
        let customers: Vec<u32> =
            (0..10_000).map(|_| constants.customer(&mut random, &scale)).collect();
        assert!(customers.iter().all(|customer| (1..=3000).contains(customer)));
    }

    #[test]
    fn every_last_name_is_some_loaded_customers() {
        for scale in [Scale::full(1), Scale::small(1)] {
            let constants = Constants::new(5);
            let mut loaded: Vec<u16> = (1..=scale.customers)
                .map(|number| {
                    let id = CustomerId { warehouse: 0, district: 1, number };
                    constants.names(9, &scale, id).0
                })
                .collect();
            loaded.sort_unstable();
            loaded.dedup();
            assert!(loaded.into_iter().map(u64::from).eq(0..=scale.last_names()));
        }
    }

    #[test]
    fn a_tenth_of_the_data_is_original() {
        let mut random = Random::new(1, &[]);
        let original = (0..10_000).filter(|_| is_original(&data(&mut random))).count();
        assert!((850..1150).contains(&original), "{original} of 10,000");
        let text: [u8; 24] = letters(&mut random, 24);
        assert!(text.iter().all(u8::is_ascii_alphanumeric));
    }
}
