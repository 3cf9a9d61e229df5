"""Values, amounts and functions as people read them."""
