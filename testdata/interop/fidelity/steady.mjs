// Loaded into each server: chance is the same each time.
let seed = 1;
Math.random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
