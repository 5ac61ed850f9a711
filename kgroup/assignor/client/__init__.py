"""Client libraries whose assignors are implemented, one module each."""
