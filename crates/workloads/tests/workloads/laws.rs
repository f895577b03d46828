//! How counts are compared with probabilities.

/// Asserts that `counts` may well come from `probabilities`, by Pearson's chi-square test. A true
/// law fails for one seed in some ten thousand, and the seeds are fixed.
#[track_caller]
pub(crate) fn assert_follows(counts: &[u64], probabilities: &[f64]) {
    assert_eq!(counts.len(), probabilities.len());
    assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9, "these are no probabilities");
    let draws = counts.iter().sum::<u64>() as f64;
    let (mut chi_square, mut bins) = (0.0, 0.0);
    // The test needs bins in which several are expected; smaller ones are pooled.
    let (mut pooled_count, mut pooled_expected) = (0.0, 0.0);
    for (&count, &probability) in counts.iter().zip(probabilities) {
        let (count, expected) = (count as f64, probability * draws);
        if expected < 8.0 {
            pooled_count += count;
            pooled_expected += expected;
        } else {
            chi_square += (count - expected).powi(2) / expected;
            bins += 1.0;
        }
    }
    if pooled_expected >= 8.0 {
        chi_square += (pooled_count - pooled_expected).powi(2) / pooled_expected;
        bins += 1.0;
    } else {
        assert!(pooled_count <= 4.0 * pooled_expected + 10.0, "{pooled_count} unexpected ones");
    }
    let freedom: f64 = bins - 1.0;
    let limit = freedom + 4.0 * (2.0 * freedom).sqrt() + 10.0;
    assert!(chi_square < limit, "chi-square of {chi_square} with {freedom} degrees of freedom");
}

/// How often each number below `end` occurs.
pub(crate) fn count(numbers: impl IntoIterator<Item = u64>, end: u64) -> Vec<u64> {
    let mut counts = vec![0; end as usize];
    numbers.into_iter().for_each(|number| counts[number as usize] += 1);
    counts
}
