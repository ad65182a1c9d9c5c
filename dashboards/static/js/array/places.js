// Where the cells of the electrode map lie: rows and columns of a grid, as the electrodes lie on the chip.

/** @typedef {{ row: number, column: number }} Place */

/**
 * Return the place of each electrode. Electrodes are in one row, or column, when they differ by at most a fifth of the
 * smallest distance of two electrodes; rows and columns without electrodes are left out. Row 0 has the largest y.
 * @param {number} count
 * @param {(number | null)[]} xUm
 * @param {(number | null)[]} yUm
 * @returns {Place[]}
 */
export function placesOf(count, xUm, yUm) {
  if (count < 2 || xUm.length !== count || yUm.length !== count) return squareOf(count);
  const tolerance = smallest(xUm.map(Number), yUm.map(Number)) / 5;
  if (!(tolerance > 0)) return squareOf(count);
  const columns = ranks(xUm.map(Number), tolerance);
  const rows = ranks(
    yUm.map((y) => -Number(y)),
    tolerance,
  );
  return columns.map((column, electrode) => ({ row: rows[electrode], column }));
}

/**
 * Return the next electrode from one in a direction, within half a right angle of it; itself at the end.
 * @param {Place[]} places
 * @param {number} from
 * @param {[number, number]} step - columns and rows
 */
export function neighbour(places, from, [right, down]) {
  const { row, column } = places[from];
  const ahead = places
    .map((place, electrode) => ({
      electrode,
      along: (place.column - column) * right + (place.row - row) * down,
      across: Math.abs(right ? place.row - row : place.column - column),
    }))
    .filter(({ along, across }) => along > 0 && across <= along)
    .sort((one, other) => one.along + 2 * one.across - other.along - 2 * other.across);
  return ahead.length ? ahead[0].electrode : from;
}

/**
 * Return places in the order of the numbers, in a square.
 * @param {number} count
 * @returns {Place[]}
 */
function squareOf(count) {
  const columns = Math.ceil(Math.sqrt(count));
  return Array.from({ length: count }, (_, number) => ({
    row: Math.floor(number / columns),
    column: number % columns,
  }));
}

/**
 * Return the rank of each value; values within the tolerance of the first of a rank share it.
 * @param {number[]} values
 * @param {number} tolerance
 */
function ranks(values, tolerance) {
  const found = values.map(() => 0);
  let rank = -1;
  let first = -Infinity;
  const order = values.map((_, number) => number).sort((one, other) => values[one] - values[other]);
  for (const number of order) {
    if (values[number] - first > tolerance) {
      rank += 1;
      first = values[number];
    }
    found[number] = rank;
  }
  return found;
}

/**
 * Return the smallest distance of two electrodes. Those whose x differ by more than the best so far are passed over.
 * @param {number[]} xUm
 * @param {number[]} yUm
 */
function smallest(xUm, yUm) {
  const order = xUm.map((_, electrode) => electrode).sort((one, other) => xUm[one] - xUm[other]);
  let best = Infinity;
  order.forEach((one, at) => {
    for (let next = at + 1; next < order.length && xUm[order[next]] - xUm[one] < best; next += 1) {
      best = Math.min(best, Math.hypot(xUm[order[next]] - xUm[one], yUm[order[next]] - yUm[one]));
    }
  });
  return best;
}
