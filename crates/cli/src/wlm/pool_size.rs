//! `POOL:SIZE`, as `--capacity` has it.
//!
//! Slurm prints the size in the largest unit that divides it, `0` for none, and `...N` for what was meant as nodes and
//! counted as something else. The last is refused wherever it comes from. Pure.

use forebay_model::capacity::{Capacity, CapacityError};
use forebay_model::units::Bytes;

/// Space in a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// The pool.
    pub pool: String,
    /// How much; may be nothing.
    pub size: Bytes,
}

/// Why it cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolSizeError {
    /// No colon, or nothing before it.
    #[error("capacity {text:?} is not POOL:SIZE")]
    Form {
        /// What was given.
        text: String,
    },
    /// A count of nodes.
    #[error("capacity {text:?} counts nodes, which Slurm takes for bytes: write a size, for example 200GiB")]
    Nodes {
        /// What was given.
        text: String,
    },
    /// Not a size.
    #[error("capacity {text:?} cannot be used: {source}")]
    Size {
        /// What was given.
        text: String,
        /// Why not.
        source: CapacityError,
    },
}

impl std::str::FromStr for PoolSize {
    type Err = PoolSizeError;

    fn from_str(text: &str) -> Result<PoolSize, PoolSizeError> {
        let owned = || text.to_owned();
        let parts = text.rsplit_once(':').filter(|(pool, _)| !pool.is_empty());
        let (pool, size) = parts.ok_or_else(|| PoolSizeError::Form { text: owned() })?;
        let size = match size.parse() {
            Ok(Capacity::Bytes(bytes)) => bytes,
            Ok(Capacity::Nodes(_)) => return Err(PoolSizeError::Nodes { text: owned() }),
            Err(CapacityError::Zero { text }) if !text.ends_with(['n', 'N', 's', 'S', 'e', 'E']) => Bytes(0),
            Err(source) => return Err(PoolSizeError::Size { text: owned(), source }),
        };
        Ok(PoolSize { pool: pool.to_owned(), size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_prints_is_read() {
        let read = |text: &str| text.parse::<PoolSize>().map(|read| (read.pool, read.size.0));
        assert_eq!(read("default:96MiB"), Ok(("default".into(), 96 << 20)));
        assert_eq!(read("default:33554432"), Ok(("default".into(), 33_554_432)));
        assert_eq!(read("wlm_pool:247488MiB"), Ok(("wlm_pool".into(), 247_488 << 20)));
        assert_eq!(read("default:0"), Ok(("default".into(), 0)));
        assert_eq!(read("a:b:5GB"), Ok(("a:b".into(), 5_000_000_000)));
    }

    #[test]
    fn what_slurm_misread_is_refused() {
        let text = |text: &str| text.parse::<PoolSize>().unwrap_err().to_string();
        assert!(text("default:16777216N").contains("counts nodes"));
        assert!(text("default:0N").contains("cannot be used"));
        assert!(text("default:1.5GiB").contains("fraction"));
        assert!(text("default:").contains("no size given"));
        assert_eq!(text("10GiB"), "capacity \"10GiB\" is not POOL:SIZE");
        assert_eq!(text(":10GiB"), "capacity \":10GiB\" is not POOL:SIZE");
    }
}
