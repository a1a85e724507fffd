//! Functions of single numbers: InfluxDB's `query/math.go`.

use crate::value::Value;

/// A mathematical function of InfluxQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Math {
    Abs,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Atan2,
    Exp,
    Log,
    Ln,
    Log2,
    Log10,
    Sqrt,
    Pow,
    Floor,
    Ceil,
    Round,
}

impl Math {
    /// The function of a name, in lower case.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "abs" => Self::Abs,
            "sin" => Self::Sin,
            "cos" => Self::Cos,
            "tan" => Self::Tan,
            "asin" => Self::Asin,
            "acos" => Self::Acos,
            "atan" => Self::Atan,
            "atan2" => Self::Atan2,
            "exp" => Self::Exp,
            "log" => Self::Log,
            "ln" => Self::Ln,
            "log2" => Self::Log2,
            "log10" => Self::Log10,
            "sqrt" => Self::Sqrt,
            "pow" => Self::Pow,
            "floor" => Self::Floor,
            "ceil" => Self::Ceil,
            "round" => Self::Round,
            _ => return None,
        })
    }

    /// How many arguments it takes.
    pub fn arguments(self) -> usize {
        if matches!(self, Self::Atan2 | Self::Log | Self::Pow) { 2 } else { 1 }
    }

    /// Its value; null of anything but numbers.
    pub fn call(self, arguments: &[Value]) -> Value {
        let Some(first) = arguments.first() else { return Value::Null };
        match (self, first) {
            (Self::Abs, Value::Integer(v)) => return Value::Integer(v.wrapping_abs()),
            (
                Self::Abs | Self::Floor | Self::Ceil | Self::Round,
                Value::Integer(_) | Value::Unsigned(_),
            ) => return first.clone(),
            _ => {}
        }
        let Some(x) = first.float() else { return Value::Null };
        if self.arguments() == 1 {
            return Value::Float(self.of(x, 0.0));
        }
        let second = arguments.get(1).and_then(Value::float);
        second.map_or(Value::Null, |y| Value::Float(self.of(x, y)))
    }

    /// Its value for floats; `y` is that of the second argument where it has one.
    pub fn of(self, x: f64, y: f64) -> f64 {
        match self {
            Self::Abs => x.abs(),
            Self::Sin => x.sin(),
            Self::Cos => x.cos(),
            Self::Tan => x.tan(),
            Self::Asin => x.asin(),
            Self::Acos => x.acos(),
            Self::Atan => x.atan(),
            Self::Atan2 => x.atan2(y),
            Self::Exp => x.exp(),
            Self::Log => x.ln() / y.ln(),
            Self::Ln => x.ln(),
            Self::Log2 => log2(x),
            // As Go has it, since floor() makes a last bit visible.
            Self::Log10 => log2(x) * std::f64::consts::LOG10_2,
            Self::Sqrt => x.sqrt(),
            Self::Pow => x.powf(y),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
            Self::Round => x.round(),
        }
    }
}

/// Go's `math.Log2`: exact for powers of two, the logarithm of the fraction for others.
fn log2(x: f64) -> f64 {
    if !x.is_normal() || x < 0.0 {
        return x.log2();
    }
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i64 - 1022;
    let fraction = f64::from_bits((x.to_bits() & !(0x7ff << 52)) | (1022 << 52));
    if fraction == 0.5 {
        return (exponent - 1) as f64;
    }
    fraction.ln() * std::f64::consts::LOG2_E + exponent as f64
}
