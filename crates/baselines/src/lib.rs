//! Floor 3: other ways of sharing objects, which MEGALON is compared with.
//!
//! [`HcMeta`] keeps index and coherence records in SCR (Tigon's way, sections 2.2 and 6 of the
//! MEGALON paper). Each is a [`Scheme`](tombolo_sharing::Scheme), runs in both worlds, and is made
//! as good as we can make it: a baseline that is slow by neglect makes every comparison worthless.

mod hcmeta;

pub use hcmeta::{
    HcMeta, Options as HcMetaOptions, Pace, SITES, Victims, WriteGuard as HcMetaGuard,
};
