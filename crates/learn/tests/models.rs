//! Gradients against differences of the loss.

use rand_core::Rng;
use sotto_learn::coins::Coins;
use sotto_learn::model::{self, Labelled, Mlp, Model, Softmax};

/// Numbers between -1 and 1.
fn numbers(rng: &mut impl Rng, count: usize) -> Vec<f64> {
    (0..count).map(|_| f64::from(rng.next_u32() as i32) / f64::from(i32::MAX)).collect()
}

fn examples(features: usize, classes: usize) -> Vec<Labelled> {
    let mut rng = Coins::from_number(7).split();
    (0..2 * classes)
        .map(|place| Labelled {
            features: numbers(&mut rng, features).into_iter().map(|x| x as f32).collect(),
            label: place % classes,
        })
        .collect()
}

/// Every coordinate of the gradient against a central difference, whose error is of the order of
/// the square of the step.
fn check_gradient<M: Model<Example = Labelled>>(model: &M, examples: &[Labelled]) {
    let mut weights = numbers(&mut Coins::from_number(8).initial(), model.dimension());
    for example in examples {
        let mut gradient = vec![0.5; weights.len()];
        model.gradient(&weights, example, &mut gradient);
        for place in 0..weights.len() {
            let step = 1e-5;
            let middle = weights[place];
            weights[place] = middle + step;
            let above = model.loss(&weights, example);
            weights[place] = middle - step;
            let below = model.loss(&weights, example);
            weights[place] = middle;
            let difference = (above - below) / (2.0 * step);
            // The gradient is added to what is there.
            let found = gradient[place] - 0.5;
            assert!((found - difference).abs() < 1e-8, "{place}: {found} {difference}");
        }
    }
}

#[test]
fn gradients_are_those_of_the_loss() {
    check_gradient(&Softmax::new(11, 3).unwrap(), &examples(11, 3));
    check_gradient(&Mlp::new(9, 5, 4).unwrap(), &examples(9, 4));
}

#[test]
fn dimensions_and_first_weights() {
    let mut rng = Coins::from_number(1).initial();
    let softmax = Softmax::new(785, 10).unwrap();
    assert_eq!(softmax.dimension(), 7_850);
    assert_eq!(softmax.initial(&mut rng), vec![0.0; 7_850]);
    let mlp = Mlp::new(784, 32, 10).unwrap();
    assert_eq!(mlp.dimension(), 25_450);
    let weights = mlp.initial(&mut rng);
    assert_eq!(weights.len(), 25_450);
    // The largest is just below sqrt(6/816) in the first layer, sqrt(6/42) in the second.
    let largest =
        |weights: &[f64]| weights.iter().fold(0.0_f64, |most, weight| most.max(weight.abs()));
    let first = largest(&weights[..25_088]);
    let second = largest(&weights[25_120..25_440]);
    assert!((0.085..0.0858).contains(&first), "{first}");
    assert!((0.37..0.378).contains(&second), "{second}");
    assert_eq!(weights[25_088..25_120], [0.0; 32]);
    assert_eq!(weights[25_440..], [0.0; 10]);
    assert!(Softmax::new(0, 10).is_err() && Softmax::new(3, 1).is_err());
    assert!(Mlp::new(3, 0, 2).is_err());
}

#[test]
fn scores_may_be_large_and_a_sure_mistake_costs_much() {
    let softmax = Softmax::new(1, 2).unwrap();
    let example = Labelled { features: vec![1.0], label: 1 };
    let mut gradient = [0.0; 2];
    let weights = [1e4, -1e4];
    assert_eq!(softmax.loss(&weights, &example), 2e4);
    softmax.gradient(&weights, &example, &mut gradient);
    assert_eq!(gradient, [1.0, -1.0]);
    assert!(!softmax.is_right(&weights, &example));
    let found = model::evaluate(&softmax, &[0.0, 1.0], &[example]);
    assert_eq!((found.accuracy, found.loss < 0.32), (1.0, true));
}

#[test]
fn published_weights_come_back_and_others_are_refused() {
    let weights = [0.5, -1.25, 3.0, 0.0];
    let bytes = model::to_bytes(&weights);
    assert_eq!(bytes.len(), 16);
    assert_eq!(model::from_bytes(&bytes, 4).unwrap(), weights);
    for (bytes, dimension) in [(&bytes[..], 5), (&bytes[..15], 4), (&bytes[..15], 3)] {
        assert!(model::from_bytes(bytes, dimension).is_err());
    }
    let nan = model::to_bytes(&[f64::NAN]);
    assert!(model::from_bytes(&nan, 1).is_err());
}
