//! Bloom filters of join keys: as SQL that any S3 Select evaluates, and binary for the fragment
//! route.
//!
//! In SQL (PushdownDB, Section V-A), the bits are a string of `0` and `1`, and universal hashing
//! finds a key's bit: `((a * x + b) % n) % m` with a prime `n`. Unlike in the paper, each hash has
//! its own slice of the bits, so that the string is not repeated for every hash. A key is first
//! mapped to 0 to n - 1, by `((x % n) + n) % n`, so that all servers agree on negative keys. As n
//! is below 2^31, no intermediate value overflows 64 bits.
//!
//! ```text
//! SUBSTRING('0110…' FROM ((69 * (((x % n) + n) % n) + 92) % n) % 97 + 1 FOR 1) = '1' AND …
//! ```

use std::sync::Arc;

use pushdowndb_contract::{ArithmeticOp, BloomFilter, CompareOp, Expr, Function, limits};

use super::{KeySet, TupleSet};

/// Bits per key at the default false positive rate of 1 %, the best one in the paper (Section
/// V-B3).
pub(crate) const BITS_PER_KEY: f64 = 9.6;

/// Maximum false positive rate at which a filter is still worth its bytes.
const MAX_FALSE_POSITIVE_RATE: f64 = 0.5;

/// The prime of the hashes, 2^31 - 1.
const PRIME: i64 = 2_147_483_647;

/// Bytes of SQL around the bits of one hash, without the key itself.
const HASH_SQL_BYTES: usize = 128;

/// Maximum size of a set of integers relative to that of a Bloom filter. A set may be larger, since
/// it is faster and has no false positives.
pub(crate) const MAX_SET_TO_FILTER_RATIO: f64 = 4.0;

/// Bloom filter predicate, with the figures that EXPLAIN shows.
pub(crate) struct Bloom {
    pub(crate) expr: Expr,
    pub(crate) bits: usize,
    pub(crate) hashes: usize,
    /// The false positive rate.
    pub(crate) rate: f64,
}

/// Returns the maximum number of keys of a filter in `bytes` bytes of SQL.
pub(crate) fn max_keys_in_sql(bytes: usize) -> usize {
    (bytes.saturating_sub(HASH_SQL_BYTES) as f64 / bits_per_key(MAX_FALSE_POSITIVE_RATE)) as usize
}

/// The limits of a filter in SQL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Approximate maximum bytes of the filter.
    pub(crate) bytes: usize,
    /// Bytes of one occurrence of a key expression.
    pub(crate) key_bytes: usize,
    /// The target false positive rate; it rises if `bytes` do not suffice.
    pub(crate) rate: f64,
}

/// Builds a filter in SQL. Returns `None` if the keys are not integers or there are too many.
pub(crate) fn in_sql(keys: &KeySet, key: &Expr, room: Room) -> Option<Bloom> {
    let values: Vec<&[i64]> = keys.whole()?.iter().map(std::slice::from_ref).collect();
    of_integers(&values, std::slice::from_ref(key), room)
}

/// Builds a filter in SQL on key tuples. Returns `None` if the keys are not integers or there are
/// too many tuples.
pub(crate) fn tuples_in_sql(tuples: &TupleSet, keys: &[Expr], room: Room) -> Option<Bloom> {
    let values: Vec<&[i64]> = tuples.whole()?.iter().map(AsRef::as_ref).collect();
    of_integers(&values, keys, room)
}

fn of_integers(values: &[&[i64]], keys: &[Expr], room: Room) -> Option<Bloom> {
    let Room { bytes, key_bytes, rate: wanted } = room;
    let per_hash = HASH_SQL_BYTES + key_bytes * keys.len();
    // The rate rises until the bits and the text around them fit.
    let rates = std::iter::successors(Some(wanted), |rate| Some(rate * 1.1));
    let (rate, hashes, bits) = rates
        .take_while(|rate| *rate <= MAX_FALSE_POSITIVE_RATE)
        .map(|rate| {
            let hashes = (-rate.log2()).round().max(1.0) as usize;
            let bits = (values.len() as f64 * bits_per_key(rate)).ceil() as usize;
            (rate, hashes, bits.max(8 * hashes))
        })
        .find(|(_, hashes, bits)| bits + hashes * per_hash <= bytes)?;
    let slice = (bits / hashes).max(1);
    let tests = (0..hashes).map(|hash| {
        let hash = Hash::new(hash as u64, keys.len(), slice as i64);
        let mut text = vec![b'0'; slice];
        for value in values {
            if let Some(bit) = usize::try_from(hash.of(value)).ok().and_then(|position| text.get_mut(position)) {
                *bit = b'1';
            }
        }
        let text = String::from_utf8(text).unwrap_or_default();
        let start = arithmetic(ArithmeticOp::Add, hash.in_sql(keys), Expr::int(1));
        let bit = Expr::Call(Function::Substring, vec![Expr::text(text), start, Expr::int(1)]);
        Expr::compare(CompareOp::Eq, bit, Expr::text("1"))
    });
    Some(Bloom { expr: Expr::conjunction(tests.collect()), bits: slice * hashes, hashes, rate })
}

/// Builds a binary filter. Returns `None` if there are too many keys.
pub(crate) fn in_bytes(keys: &KeySet, key: &Expr, rate: f64) -> Option<Bloom> {
    let fill = |filter: &mut BloomFilter| keys.each_hash(&mut |hash| filter.insert_hash(hash));
    filled(keys.distinct()?, vec![key.clone()], rate, fill)
}

/// Builds an exact set of integer keys, and returns its predicate and its size in bytes. Returns
/// `None` if the keys are not integers, or too sparse.
pub(crate) fn as_numbers(keys: &KeySet, key: &Expr, rate: f64) -> Option<(Expr, usize)> {
    let numbers = keys.whole()?;
    let most_bytes = (numbers.len() as f64 * bits_per_key(rate) / 8.0 * MAX_SET_TO_FILTER_RATIO) as usize;
    let filter = BloomFilter::of_numbers(numbers.iter().copied(), most_bytes)?;
    let bytes = filter.size_bytes();
    Some((Expr::Bloom { keys: vec![key.clone()], filter: Arc::new(filter) }, bytes))
}

/// Estimates the bytes of a set of `keys` keys from a range of `numbers` integers. Returns `None`
/// if the keys are too sparse.
pub(crate) fn set_bytes(keys: f64, numbers: f64) -> Option<f64> {
    let (bits, gap) = (numbers / 8.0, (numbers / keys.max(1.0)).max(1.0));
    // A gap takes a byte per 7 bits of its length; gaps are distributed geometrically.
    let longer = |bits: i32| (-2_f64.powi(bits) / gap).exp();
    let bytes = bits.min(keys * (1.0 + longer(7) + longer(14)));
    BloomFilter::holds_numbers(bits as usize, bytes as usize).then_some(bytes)
}

/// Builds a binary filter on key tuples. Returns `None` if there are too many tuples.
pub(crate) fn tuples_in_bytes(tuples: &TupleSet, keys: &[Expr], rate: f64) -> Option<Bloom> {
    let hashes = tuples.hashes()?;
    filled(hashes.len(), keys.to_vec(), rate, |filter| {
        hashes.iter().for_each(|hash| filter.insert_hash(*hash));
        Some(())
    })
}

fn filled(
    count: usize,
    keys: Vec<Expr>,
    wanted: f64,
    fill: impl FnOnce(&mut BloomFilter) -> Option<()>,
) -> Option<Bloom> {
    let most = (limits::BLOOM_FILTER_BYTES / 2) as f64 * 8.0;
    let rate = wanted.max((-most / count.max(1) as f64 * std::f64::consts::LN_2.powi(2)).exp());
    let mut filter = BloomFilter::with_capacity(count, rate);
    fill(&mut filter)?;
    let (bits, hashes) = (filter.size_bytes() * 8, usize::from(filter.hashes()));
    Some(Bloom { expr: Expr::Bloom { keys, filter: Arc::new(filter) }, bits, hashes, rate })
}

/// Returns the bits per key for a false positive `rate`: m_p / s in the paper.
fn bits_per_key(rate: f64) -> f64 {
    rate.ln().abs() / std::f64::consts::LN_2.powi(2)
}

/// A universal hash, computed in Rust and in SQL: `(a * x + b) % n % m` of a key x from 0 to n - 1,
/// `((a * x + b) % n + c * y) % n % m` of two keys, and so on.
struct Hash {
    factors: Vec<i64>,
    b: i64,
    m: i64,
}

impl Hash {
    fn new(number: u64, keys: usize, m: i64) -> Self {
        let (_, b) = coefficients(number);
        // A filter has far fewer hashes than 64.
        let factors = (0..keys as u64).map(|key| coefficients(number + 64 * key).0).collect();
        Self { factors, b, m }
    }

    fn of(&self, keys: &[i64]) -> i64 {
        let terms = self.factors.iter().zip(keys);
        // The sum stays below 2^62 + 2^31.
        terms.fold(self.b, |hash, (a, key)| (hash + a * key.rem_euclid(PRIME)) % PRIME) % self.m
    }

    fn in_sql(&self, keys: &[Expr]) -> Expr {
        use ArithmeticOp::{Add, Modulo, Multiply};
        let modulo = |x, n| arithmetic(Modulo, x, Expr::int(n));
        let counted = |key: &Expr| modulo(arithmetic(Add, modulo(key.clone(), PRIME), Expr::int(PRIME)), PRIME);
        let terms = self.factors.iter().zip(keys);
        let hash = terms.fold(None, |hash, (a, key)| {
            let term = arithmetic(Multiply, Expr::int(*a), counted(key));
            let sum = match hash {
                None => arithmetic(Add, term, Expr::int(self.b)),
                Some(hash) => arithmetic(Add, hash, term),
            };
            Some(modulo(sum, PRIME))
        });
        modulo(hash.unwrap_or(Expr::int(self.b)), self.m)
    }
}

fn arithmetic(op: ArithmeticOp, a: Expr, b: Expr) -> Expr {
    Expr::Arithmetic(op, Box::new(a), Box::new(b))
}

/// Returns the coefficients of hash number `hash`: `a`, at least 1, and `b`, at least 0. They are
/// the same in every query.
fn coefficients(hash: u64) -> (i64, i64) {
    let random = |seed: u64| {
        // splitmix64
        let mut x = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) >> 2
    };
    let below = |value: u64, n: i64| i64::try_from(value).unwrap_or_default() % n;
    (1 + below(random(2 * hash), PRIME - 1), below(random(2 * hash + 1), PRIME))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use pushdowndb_contract::{CsvOptions, Dialect, Exactness, Format, classify};
    use pushdowndb_scan::Evaluator;

    use super::*;

    fn keys(values: impl Iterator<Item = i64>) -> KeySet {
        let mut keys = KeySet::new(DataType::Int64);
        keys.push(&(Arc::new(Int64Array::from_iter_values(values)) as ArrayRef)).unwrap();
        keys
    }

    fn passing(expr: &Expr, values: Vec<i64>) -> usize {
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(values))]).unwrap();
        Evaluator::predicate(expr, &schema).unwrap().matches(&batch).unwrap().true_count()
    }

    const EXTREMES: [i64; 8] = [i64::MIN, i64::MIN + 1, -PRIME, -1, 0, PRIME, i64::MAX - 1, i64::MAX];

    const ROOM: Room = Room { bytes: 1 << 18, key_bytes: 30, rate: 0.01 };

    #[test]
    fn members_pass_and_few_others() {
        let held = || (0..2000).map(|i| i * 7 - 5000).chain(EXTREMES);
        let bloom = in_sql(&keys(held()), &Expr::Column(0), ROOM).unwrap();
        assert_eq!(passing(&bloom.expr, held().collect()), 2008);
        let others: Vec<i64> = (0..50_000).map(|i| i * 7 - 5001).collect();
        let wrong = passing(&bloom.expr, others) as f64 / 50_000.0;
        assert!(wrong > 0.003 && wrong < 0.03, "{wrong} for a rate of {}", bloom.rate);
        assert_eq!((bloom.hashes, bloom.bits / 2008), (7, 9));
        let loose = in_sql(&keys(held()), &Expr::Column(0), Room { rate: 0.3, ..ROOM }).unwrap();
        assert_eq!((loose.hashes, loose.bits / 2008), (2, 2));

        let bytes = in_bytes(&keys(held()), &Expr::Column(0), 0.01).unwrap();
        assert_eq!(passing(&bytes.expr, held().collect()), 2008);
        assert!(as_numbers(&keys(held()), &Expr::Column(0), 0.01).is_none(), "they lie all over the integers");
        let near = keys((0..2000).map(|i| i * 7 - 5000));
        let (set, bytes) = as_numbers(&near, &Expr::Column(0), 0.01).unwrap();
        assert_eq!((bytes, passing(&set, (-6000..10_000).collect())), (16 + 1750, 2000), "and nothing else");
    }

    #[test]
    fn combinations_pass_and_few_others() {
        let schema =
            Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true), Field::new("y", DataType::Int64, true)]));
        let columns = |pairs: &[(i64, i64)]| -> Vec<ArrayRef> {
            let (x, y): (Vec<i64>, Vec<i64>) = pairs.iter().copied().unzip();
            vec![Arc::new(Int64Array::from(x)), Arc::new(Int64Array::from(y))]
        };
        let passing = |expr: &Expr, pairs: &[(i64, i64)]| {
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns(pairs)).unwrap();
            Evaluator::predicate(expr, &schema).unwrap().matches(&batch).unwrap().true_count()
        };
        let extremes = EXTREMES.iter().flat_map(|x| EXTREMES.map(|y| (*x, y)));
        let held: Vec<(i64, i64)> = (0..1000).map(|i| (i, i * 3)).chain(extremes).collect();
        let others: Vec<(i64, i64)> = (0..20_000).map(|i| (i % 1000, i % 1000 * 3 + 1 + i / 1000)).collect();
        let mut tuples = TupleSet::new(&[DataType::Int64, DataType::Int64]).unwrap();
        tuples.push(&columns(&held)).unwrap();
        let keys = [Expr::Column(0), Expr::Column(1)];
        for bloom in [tuples_in_sql(&tuples, &keys, ROOM), tuples_in_bytes(&tuples, &keys, 0.01)] {
            let bloom = bloom.unwrap();
            assert_eq!(passing(&bloom.expr, &held), held.len());
            assert!(passing(&bloom.expr, &others) < 600, "of values that all occur, in other combinations");
        }
    }

    #[test]
    fn the_rate_rises_until_the_filter_fits() {
        let (many, key) = (keys(0..60_000), Expr::Column(0));
        let bloom = in_sql(&many, &key, Room { bytes: 200_000, ..ROOM }).unwrap();
        assert!(bloom.bits < 200_000 && bloom.rate > 0.1 && bloom.rate < 0.5, "{} {}", bloom.bits, bloom.rate);
        assert_eq!(passing(&bloom.expr, (0..60_000).collect()), 60_000);
        assert!(in_sql(&many, &key, Room { bytes: 50_000, ..ROOM }).is_none());
        assert!(max_keys_in_sql(50_000) < 60_000 && max_keys_in_sql(200_000) > 60_000);
    }

    #[test]
    fn filters_do_not_depend_on_the_sign_of_remainders() {
        let schema = Schema::new(vec![Field::new("x", DataType::Int32, true)]);
        let bloom = in_sql(&keys(0..100), &Expr::Column(0), ROOM).unwrap();
        let on = |dialect| classify(&bloom.expr, &schema, &Format::Csv(CsvOptions::default()), &dialect);
        assert_eq!(on(Dialect::standard()), Exactness::Exact(bloom.expr.clone()));
        assert_eq!(on(Dialect::pushdowndb()), Exactness::Exact(bloom.expr.clone()));
        assert_eq!(on(Dialect::minio()), Exactness::Unsupported);
    }
}
