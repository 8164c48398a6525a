//! Data sets: preparation and splits.

use std::collections::BTreeSet;

use sotto_learn::coins::Coins;
use sotto_learn::data::{Images, Preparation, Users, digits};

#[test]
fn prepared_images_are_centred_and_of_norm_1() {
    let images = Images::new(2, vec![10, 0, 0, 10, 5, 5], vec![0, 1, 2]).unwrap();
    let preparation = Preparation::new(&images, Some(0.3));
    assert_eq!(preparation.features(), 3);
    let found = preparation.apply(&images).unwrap();
    let half = 0.5_f32.sqrt();
    assert_eq!(found[0].features, [half, -half, 0.3]);
    assert_eq!(found[1].features, [-half, half, 0.3]);
    // The mean itself.
    assert_eq!((&found[2].features[..], found[2].label), (&[0.0, 0.0, 0.3][..], 2));
    assert!(Images::new(2, vec![1, 2, 3], vec![0, 1]).is_err());
    assert!(Images::new(0, vec![], vec![]).is_err());
    let other = Images::new(1, vec![1], vec![0]).unwrap();
    assert!(preparation.apply(&other).is_err());
    for example in &Preparation::new(&digits().unwrap(), None).apply(&digits().unwrap()).unwrap() {
        let square: f64 = example.features.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        assert!((square - 1.0).abs() < 1e-6);
    }
}

#[test]
fn every_sixth_image_is_for_tests() {
    let images = Images::new(1, (0..20).collect(), (0..20).collect()).unwrap();
    let (training, test) = images.split_every(6);
    let labels = |images: &Images| images.iter().map(|(_, label)| label).collect::<Vec<_>>();
    assert_eq!(labels(&test), [5, 11, 17]);
    assert_eq!((training.len(), labels(&training)[5]), (17, 6));
    assert!(!training.is_empty());
}

#[test]
fn users_have_their_own_examples() {
    let users = Users::new([vec!['a'], vec![], vec!['b', 'c']]);
    assert_eq!(users.len(), 3);
    let of: Vec<&[char]> = (0..5).map(|user| users.of(user)).collect();
    assert_eq!(of, [&['a'][..], &[], &['b', 'c'], &[], &[]]);
    let users = Users::one_each(vec![1, 2]);
    assert_eq!((users.of(0), users.of(1), users.is_empty()), (&[1][..], &[2][..], false));
    assert_eq!(Users::<u8>::new([]).of(0), [0; 0]);
}

#[test]
fn users_of_two_labels() {
    let images = digits().unwrap();
    let examples = Preparation::new(&images, None).apply(&images).unwrap();
    let split = |seed| {
        let mut rng = Coins::from_number(seed).split();
        Users::two_labels(examples.clone(), 10, &mut rng).unwrap()
    };
    let users = split(1);
    // 1,797 digits in halves of five: two to four of each label are left over.
    assert_eq!(users.len(), 177);
    let mut used = BTreeSet::new();
    let mut mixed = 0;
    for user in 0..users.len() {
        let mine = users.of(user);
        assert_eq!(mine.len(), 10);
        let labels: BTreeSet<usize> = mine.iter().map(|example| example.label).collect();
        assert!(labels.len() <= 2);
        mixed += labels.len() - 1;
        used.extend(mine.iter().map(|example| example.features.as_ptr()));
    }
    assert_eq!(used.len(), 1_770);
    // Nine in ten users have two labels; the seed is fixed.
    assert!((140..177).contains(&mixed), "{mixed}");
    assert_eq!(split(1), users);
    assert_ne!(split(2), users);
    for bad in [0, 3] {
        let mut rng = Coins::from_number(1).split();
        assert!(Users::two_labels(examples.clone(), bad, &mut rng).is_err());
    }
}
