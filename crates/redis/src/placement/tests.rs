use proptest::prelude::*;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use super::jump::bucket;
use super::{Distribution, Hash, Member, Ring, SLOTS, default_name, slot, tagged};

fn members<'a>(of: &[(&'a str, u32)]) -> Vec<Member<'a>> {
    of.iter().map(|&(name, weight)| Member { name, weight }).collect()
}

fn ring(distribution: Distribution, of: &[(&str, u32)]) -> Ring {
    Ring::new(distribution, &members(of), &|_| true).unwrap()
}

/// How many of `keys` hashes each of `of` has.
fn counts(ring: &Ring, of: usize, keys: u32) -> Vec<u32> {
    let mut counts = vec![0; of];
    for key in 0..keys {
        counts[ring.server_of(Hash::Murmur.of(&key.to_le_bytes()))] += 1;
    }
    counts
}

/// What twemproxy's own functions give for "apple", for a key with bytes from 0x80 on, for 300
/// bytes that count up, and for 0x80 alone.
const KNOWN: [(Hash, [u32; 4]); 12] = [
    (Hash::OneAtATime, [2_297_466_611, 398_107_440, 3_926_183_705, 3_273_477_671]),
    (Hash::Md5, [3_195_025_439, 2_485_016_310, 2_458_104_599, 2_128_427_405]),
    (Hash::Crc16, [3_662_830_516, 2_525_278_460, 2_023_145_846, 37_256]),
    (Hash::Crc32, [10_542, 28_091, 15_036, 16_314]),
    (Hash::Crc32a, [2_838_417_488, 1_840_979_870, 985_464_046, 1_069_182_125]),
    (Hash::Fnv1_64, [473_199_127, 3_002_038_374, 1_559_258_145, 2_046_707_807]),
    (Hash::Fnv1a64, [1_488_911_807, 2_602_531_420, 2_765_974_681, 2_046_684_255]),
    (Hash::Fnv1_32, [67_176_023, 4_099_481_254, 1_860_734_721, 4_210_270_879]),
    (Hash::Fnv1a32, [280_767_167, 3_434_763_900, 1_326_972_409, 83_079_839]),
    (Hash::Hsieh, [3_738_850_110, 459_679_010, 4_291_006_884, 3_606_367_026]),
    (Hash::Murmur, [4_142_305_122, 2_095_645_272, 1_156_465_438, 2_421_514_821]),
    (Hash::Jenkins, [1_442_444_624, 3_777_620_552, 3_530_316_260, 2_976_898_632]),
];

#[test]
fn the_hashes_are_those_of_twemproxy() {
    let long: Vec<u8> = (0..300_u32).map(|byte| byte as u8).collect();
    for (hash, sums) in KNOWN {
        let keys: [&[u8]; 4] = [b"apple", b"caf\xc3\xa9\0\xff", &long, b"\x80"];
        assert_eq!(keys.map(|key| hash.of(key)), sums, "{}", hash.name());
    }
}

#[test]
fn the_empty_key_has_the_hash_0() {
    assert!(Hash::ALL.into_iter().all(|hash| hash.of(b"") == 0));
}

#[test]
fn a_hash_and_a_distribution_are_called_as_in_nutcracker_yml() {
    for hash in Hash::ALL {
        let name: StrDeserializer<'_, Error> = hash.name().into_deserializer();
        assert_eq!(Hash::deserialize(name), Ok(hash));
    }
    for one in
        [Distribution::Ketama, Distribution::Modula, Distribution::Random, Distribution::Jump]
    {
        let name: StrDeserializer<'_, Error> = one.name().into_deserializer();
        assert_eq!(Distribution::deserialize(name), Ok(one));
    }
}

#[test]
fn a_tag_is_what_stands_between_its_first_two_characters() {
    let braces = Some(*b"{}");
    for (key, part) in [
        ("{a}b", "a"),
        ("x{y}z{w}", "y"),
        ("x}y{z}", "z"),
        ("{{a}}", "{a"),
        ("{}a", "{}a"),
        ("{}{a}", "{}{a}"),
        ("{", "{"),
        ("a{b", "a{b"),
        ("a}b{", "a}b{"),
        ("", ""),
    ] {
        assert_eq!(tagged(key.as_bytes(), braces), part.as_bytes(), "{key}");
    }
    assert_eq!(tagged(b"$a$b$", Some(*b"$$")), b"a");
    assert_eq!(tagged(b"{a}b", None), b"{a}b");
}

#[test]
fn a_slot_is_that_of_redis_cluster() {
    assert_eq!(slot(b"123456789"), 0x31c3);
    assert_eq!(slot(b"foo"), 12182);
    assert_eq!(slot(b""), 0);
    assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
    assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
    assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"));
    assert!((0..=u16::MAX).all(|key| slot(&key.to_be_bytes()) < SLOTS));
}

#[test]
fn a_server_without_a_name_is_hashed_by_its_address_as_twemproxy_has_it() {
    assert_eq!(default_name("10.0.0.1:6379"), "10.0.0.1:6379");
    assert_eq!(default_name("10.0.0.1:11211"), "10.0.0.1");
    assert_eq!(default_name("10.0.0.1:011211"), "10.0.0.1");
    assert_eq!(default_name("cache"), "cache");
    assert_eq!(default_name("/run/redis.sock"), "/run/redis.sock:");
}

#[test]
fn modula_takes_the_servers_by_the_length_of_their_names_and_then_by_name() {
    let ring = ring(Distribution::Modula, &[("long", 1), ("b", 2), ("a", 1)]);
    let places: Vec<usize> = (0..8).map(|hash| ring.server_of(hash)).collect();
    assert_eq!(places, [2, 1, 1, 0, 2, 1, 1, 0]);
}

#[test]
fn ketama_gives_points_by_weight_and_goes_round() {
    // The point that twemproxy's own test knows: "server1-8" has points at 3853726576, 2667054752.
    let ring = ring(Distribution::Ketama, &[("server1", 1), ("server2", 1), ("server3", 1)]);
    assert_eq!(ring.server_of(3_853_726_576), 0);
    assert_eq!(ring.server_of(2_667_054_752), 0);
    assert_eq!(ring.server_of(u32::MAX), ring.server_of(0));

    let ring = self::ring(Distribution::Ketama, &[("one", 1), ("two", 2), ("none", 0)]);
    let counts = counts(&ring, 3, 30_000);
    assert_eq!(counts[2], 0);
    assert!((1.5..2.7).contains(&(f64::from(counts[1]) / f64::from(counts[0]))), "{counts:?}");
}

#[test]
fn a_random_server_is_drawn_by_weight() {
    let ring = ring(Distribution::Random, &[("a", 1), ("b", 3)]);
    let drawn: Vec<usize> =
        [0, 0x3fff_ffff, 0x4000_0000, u32::MAX].map(|draw| ring.server_of(draw)).into();
    assert_eq!(drawn, [0, 0, 1, 1]);
}

#[test]
fn jump_is_the_papers() {
    for (key, buckets, of) in
        [(1, 1, 0), (42, 57, 43), (0xdead_10cc, 1, 0), (0xdead_10cc, 666, 361), (256, 1024, 520)]
    {
        assert_eq!(bucket(key, buckets), of, "{key} among {buckets}");
    }
    let ring = ring(Distribution::Jump, &[("a", 1), ("b", 1), ("c", 2)]);
    let counts = counts(&ring, 3, 40_000);
    for (count, share) in counts.iter().zip([10_000, 10_000, 20_000]) {
        assert!(count.abs_diff(share) < 500, "{counts:?}");
    }
}

#[test]
fn a_server_that_is_alone_has_all_keys_and_nobody_has_them_where_all_are_away() {
    let three = members(&[("a", 1), ("b", 7), ("c", 1_000_000_000)]);
    for distribution in
        [Distribution::Ketama, Distribution::Modula, Distribution::Random, Distribution::Jump]
    {
        let alone = Ring::new(distribution, &three, &|place| place == 1).unwrap();
        assert!((0..1000).all(|key: u32| alone.server_of(key.wrapping_mul(4_294_961)) == 1));
        assert_eq!(Ring::new(distribution, &three, &|_| false), None);
        assert_eq!(Ring::new(distribution, &[], &|_| true), None);
        assert_eq!(Ring::new(distribution, &members(&[("a", 0)]), &|_| true), None);
    }
}

proptest! {
    #[test]
    fn nobody_elses_keys_move_when_a_server_goes(
        weights in prop::collection::vec(1..5_u32, 2..9),
        hashes in prop::collection::vec(any::<u32>(), 1..200),
        away in any::<prop::sample::Index>(),
    ) {
        let names: Vec<String> = (0..weights.len()).map(|place| format!("s{place}")).collect();
        let members: Vec<_> = names.iter().zip(&weights)
            .map(|(name, &weight)| Member { name, weight })
            .collect();
        let away = away.index(members.len());
        let all = Ring::new(Distribution::Jump, &members, &|_| true).unwrap();
        let left = Ring::new(Distribution::Jump, &members, &|place| place != away).unwrap();
        for hash in hashes {
            let (before, after) = (all.server_of(hash), left.server_of(hash));
            prop_assert_ne!(after, away);
            prop_assert!(before == after || before == away);
        }
    }

    #[test]
    fn any_weights_and_names_make_a_ring(
        servers in prop::collection::vec((".{0,300}", any::<u32>()), 0..6),
        hash in any::<u32>(),
    ) {
        let members: Vec<_> =
            servers.iter().map(|(name, weight)| Member { name, weight: *weight }).collect();
        let usable = members.iter().any(|member| member.weight > 0);
        for distribution in
            [Distribution::Ketama, Distribution::Modula, Distribution::Random, Distribution::Jump]
        {
            let ring = Ring::new(distribution, &members, &|_| true);
            prop_assert_eq!(ring.is_some(), usable);
            if let Some(ring) = ring {
                prop_assert!(members[ring.server_of(hash)].weight > 0);
            }
        }
    }
}
