"""The connector `datagen`: rows of random values and sequences."""
