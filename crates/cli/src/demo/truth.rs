//! The true values beside the estimates: computed from what the devices hold, before sampling and
//! noise.

use sotto_dp::mechanism::Value as Answer;
use sotto_protocol::expression::Value;
use sotto_wire::Probability;
use sotto_wire::recipe::Query;

use super::question::Question;

/// How many devices are in each bucket, or the sum of their numbers.
pub(super) fn buckets(question: &Question) -> Vec<f64> {
    if question.draft.query.vectors().is_some() {
        return coordinates(question);
    }
    let mut truth = vec![0; question.labels.len()];
    for (kind, count) in question.of_each_kind() {
        let held = match question.assessment.answer(kind) {
            Answer::Bit(yes) => vec![(0, u64::from(yes))],
            Answer::Number(number) => vec![(0, number)],
            Answer::OneHot(bucket) => vec![(bucket as usize, 1)],
            Answer::Labels(labels) => labels.iter().map(|label| (*label as usize, 1)).collect(),
            Answer::Vector(_) => Vec::new(),
        };
        for (index, each) in held {
            if let Some(total) = truth.get_mut(index) {
                *total += each * count;
            }
        }
    }
    truth.into_iter().map(|total: u64| total as f64).collect()
}

/// The sum of the vectors that devices hold, or their mean. Vectors that are too long count as what
/// they are: clipping is an error of the result.
fn coordinates(question: &Question) -> Vec<f64> {
    let mut sum = vec![0.0; question.labels.len()];
    for (kind, count) in question.of_each_kind() {
        if let Ok(Value::Vector(vector)) = question.assessment.mapping().evaluate(kind) {
            let held = vector.as_slice().iter();
            sum.iter_mut().zip(held).for_each(|(sum, one)| *sum += one * count as f64);
        }
    }
    if let Query::VectorMean(_) = question.draft.query {
        sum.iter_mut().for_each(|sum| *sum /= question.held.len() as f64);
    }
    sum
}

/// The same for what is computed from them: the number of devices and their mean, or quantiles.
pub(super) fn statistics(question: &Question) -> Vec<f64> {
    match &question.draft.query {
        Query::Mean { .. } => {
            let devices = question.held.len() as f64;
            let sum: f64 = buckets(question).iter().sum();
            vec![devices, sum / devices]
        }
        Query::Quantiles { quantiles, fallback, .. } => {
            let number = |(kind, count)| match question.assessment.mapping().evaluate(kind) {
                Ok(Value::Int(number)) => (number, count),
                _ => (*fallback, count),
            };
            let mut numbers: Vec<(i64, u64)> = question.of_each_kind().map(number).collect();
            numbers.sort_unstable();
            quantiles.iter().map(|part| quantile(&numbers, part)).collect()
        }
        Query::VectorSum(_) => vec![norm(&coordinates(question))],
        Query::VectorMean(_) => {
            vec![question.held.len() as f64, norm(&coordinates(question))]
        }
        _ => Vec::new(),
    }
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|number| number * number).sum::<f64>().sqrt()
}

/// The smallest number that is not exceeded by this part of the devices. The numbers are in order,
/// each with how many devices have it.
fn quantile(numbers: &[(i64, u64)], part: &Probability) -> f64 {
    let all: u64 = numbers.iter().map(|(_, count)| count).sum();
    let enough = |up_to: u64| {
        u128::from(up_to) * u128::from(part.den()) >= u128::from(all) * u128::from(part.num())
    };
    let mut up_to = 0;
    let found = numbers.iter().find(|(_, count)| {
        up_to += count;
        enough(up_to)
    });
    found.map_or(f64::NAN, |(number, _)| *number as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_number_of_a_device() {
        let numbers = [(-5, 1), (10, 2), (20, 1)];
        let part = |num, den| quantile(&numbers, &Probability::new(num, den).unwrap());
        assert_eq!(part(1, 4), -5.0);
        assert_eq!(part(1, 2), 10.0);
        assert_eq!(part(3, 4), 10.0);
        assert_eq!(part(4, 5), 20.0);
    }
}
