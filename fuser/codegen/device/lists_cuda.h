// Lists of points by the rows they go to, made and read by the blocks of one launch, and sums of
// the points of a row by several warps. Blocks are 32 threads wide.
//
//   count     every point: how many came to its row before, in any order
//   allot     every row: where its list begins; a long one is cut into pieces
//   place     every point: its number, at its place in the list
//   add       every row, or piece of one: the points of its list
//
// Blocks take shares of all that in this order, so that one which waits for shares before its own
// waits for blocks that run.

//@ list_state
// Numbers that are 0 at the ends of a launch: shares that were taken; how many blocks are done with
// counting, allotting, placing, and all; places in lists, and pieces, that were allotted.
struct list_state {
  int taken, counted, allotted, placed, finished, places, pieces, unused;
};

//@ point_lists: list_state
// The lists of `points` by `rows`, in memory that blocks share; `counts` of rows are 0 at the ends
// of a launch, too. The list of a row is in `listed`, from the first to the second of its `bounds`.
// Of a row with more than `longest` points, each of its pieces is four numbers: row, bounds, and
// the number of the row's first piece.
struct point_lists {
  list_state* state;
  int *counts, *pieces, *bounds, *row_of, *rank_of, *listed;
  int points, rows, longest;
};

//@ lists_in: FUSER_DEVICE, point_lists
// Lists in two workspaces: of what is 0 at the ends of a launch, and of what is not.
FUSER_DEVICE point_lists
lists_in(int* zeros, int* memory, int points, int rows, int longest, int most_pieces) {
  int *bounds = memory + 4 * most_pieces, *row_of = bounds + 2 * rows;
  int *rank_of = row_of + points, *listed = rank_of + points;
  int* const counts = zeros + sizeof(list_state) / sizeof(int);
  list_state* const state = reinterpret_cast<list_state*>(zeros);
  return {state, counts, memory, bounds, row_of, rank_of, listed, points, rows, longest};
}

//@ take_share: FUSER_DEVICE
// The number of this block's share.
FUSER_DEVICE int take_share(int* taken) {
  __shared__ int share;
  if (threadIdx.x == 0 && threadIdx.y == 0) share = atomicAdd(taken, 1);
  __syncthreads();
  return share;
}

//@ hand_in: FUSER_DEVICE
// Tells others that a share is done.
FUSER_DEVICE void hand_in(int* done) {
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();  // for all: what a barrier has ordered before a fence, the fence orders, too
    atomicAdd(done, 1);
  }
}

//@ wait_for_shares: FUSER_DEVICE, number_now, pause_polling
// Waits until so many shares are done, and sees what they have written.
FUSER_DEVICE void wait_for_shares(int* done, int shares) {
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();
    while (number_now(done) < shares) pause_polling();
    __threadfence();
  }
  __syncthreads();
}

//@ count_point: FUSER_DEVICE, point_lists, lanes_alike
// Counts a point to its row, to none if that is -1; of the lanes of a warp with points of one row,
// one does for all. Without a point, the number is -1, too.
FUSER_DEVICE void count_point(const point_lists& lists, int number, int row) {
  const unsigned int all = 0xffffffffu;
  const unsigned int alike = lanes_alike(all, static_cast<unsigned long long>(row));
  const int lane = threadIdx.x, first = __ffs(alike) - 1;
  int before = 0;
  if (lane == first && row >= 0) before = atomicAdd(lists.counts + row, __popc(alike));
  before = __shfl_sync(all, before, first) + __popc(alike & ((1u << lane) - 1u));
  if (number < 0) return;
  lists.row_of[number] = row;
  lists.rank_of[number] = before;
}

//@ sum_below: FUSER_DEVICE
// The sum of the numbers of a warp's lanes up to this one.
FUSER_DEVICE int sum_below(int number) {
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const int below = __shfl_up_sync(0xffffffffu, number, by);
    if (threadIdx.x >= by) number += below;
  }
  return number;
}

//@ cut_row: FUSER_DEVICE, point_lists, store_vector
// Writes down the pieces of a row, from a `number` on; the lanes of a warp share them out, since a
// row may have most of all points.
FUSER_DEVICE void
cut_row(const point_lists& lists, int row, int first, int end, int number, int cut) {
  for (int i = threadIdx.x; i < cut; i += 32) {
    const int from = first + i * lists.longest;
    const int to = end - from < lists.longest ? end : from + lists.longest;
    const int piece[4] = {row, from, to, number};
    store_vector(piece, lists.pieces + 4 * (number + i));
  }
}

//@ allot_row: FUSER_DEVICE, point_lists, sum_below, part_at, cut_row
// Finds a place for the list of a row, and for those of the other lanes of the warp, one after the
// other. There may be no such row.
FUSER_DEVICE void allot_row(const point_lists& lists, int row) {
  const unsigned int all = 0xffffffffu;
  const bool exists = row < lists.rows;
  const int count = exists ? part_at(lists.counts + row) : 0, upto = sum_below(count);
  int base = 0;
  if (threadIdx.x == 31 && upto > 0) base = atomicAdd(&lists.state->places, upto);
  base = __shfl_sync(all, base, 31);
  const int end = base + upto, first = end - count;
  const int cut = count > lists.longest ? (count + lists.longest - 1) / lists.longest : 0;
  if (exists) {
    lists.counts[row] = 0;
    lists.bounds[2 * row] = first;
    lists.bounds[2 * row + 1] = end;
  }
  const int number = cut > 0 ? atomicAdd(&lists.state->pieces, cut) : 0;
  for (unsigned int left = __ballot_sync(all, cut > 0); left != 0; left &= left - 1u) {
    const int lane = __ffs(left) - 1;
    const int row_cut = __shfl_sync(all, row, lane), pieces = __shfl_sync(all, cut, lane);
    const int from = __shfl_sync(all, first, lane), to = __shfl_sync(all, end, lane);
    cut_row(lists, row_cut, from, to, __shfl_sync(all, number, lane), pieces);
  }
}

//@ place_point: FUSER_DEVICE, point_lists, part_at
// Puts a point in the list of its row.
FUSER_DEVICE void place_point(const point_lists& lists, int number) {
  if (number >= lists.points) return;
  const int row = part_at(lists.row_of + number);
  if (row < 0) return;
  const int first = part_at(lists.bounds + 2 * row);
  lists.listed[first + part_at(lists.rank_of + number)] = number;
}

//@ pieces_in: FUSER_DEVICE, point_lists, part_at
// How many pieces were cut.
FUSER_DEVICE int pieces_in(const point_lists& lists) { return part_at(&lists.state->pieces); }

//@ listed_rows
// What a lane has of the rows of its warp: `row`, in how many steps it is done, its `count` points
// from `first` on, and at which step of the warp it ends. A warp with a piece has nothing else: it
// is that of a `number`, of the row of lane 0, which was cut in `cut`, 0 of whole rows. The sum of
// its first piece is kept as that of a `slot`.
struct listed_rows {
  int row, steps, first, count, end, number, cut, slot;
};

//@ piece_of_warp: FUSER_DEVICE, point_lists, listed_rows, part_at
// A piece of one of all `copies` of the rows.
FUSER_DEVICE listed_rows
piece_of_warp(const point_lists& lists, int unit, int copies, int most_pieces) {
  const int number = unit / copies, copy = unit % copies;
  const int* const piece = lists.pieces + 4 * number;
  const int row = part_at(piece), first = part_at(piece + 1), first_piece = part_at(piece + 3);
  const int count = part_at(piece + 2) - first;
  const int* const bounds = lists.bounds + 2 * row;
  const int all = part_at(bounds + 1) - part_at(bounds);
  listed_rows own = {copy * lists.rows + row, 0, first, 0, count, 0, 0, 0};
  if (threadIdx.x == 0) own.steps = own.count = count;
  own.number = number - first_piece;
  own.cut = (all + lists.longest - 1) / lists.longest;
  own.slot = copy * most_pieces + first_piece;
  return own;
}

//@ rows_of_warp: FUSER_DEVICE, point_lists, listed_rows, sum_below, part_at
// Some whole rows, of all `copies` of them. One without points is done in a step.
FUSER_DEVICE listed_rows
rows_of_warp(const point_lists& lists, int unit, int copies, int tile) {
  listed_rows own = {0, 0, 0, 0, 0, 0, 0, 0};
  const int lane = threadIdx.x, row = unit * tile + lane;
  if (lane < tile && row < copies * lists.rows) {
    own.row = row;
    const int* const bounds = lists.bounds + 2 * (row % lists.rows);
    own.first = part_at(bounds);
    own.count = part_at(bounds + 1) - own.first;
    own.steps = own.count > lists.longest ? 0 : own.count > 0 ? own.count : 1;
  }
  own.end = sum_below(own.steps);
  return own;
}

//@ listed_step
// What a lane knows of a step: the lane whose row it is of, the point, -1 if the row has none, and
// whether it is the last step of a whole row.
struct listed_step {
  int of, point;
  bool ends;
};

//@ step_of_lane: FUSER_DEVICE, point_lists, listed_rows, listed_step, part_at
// A step of a warp; one after its last is of no point, and ends nothing.
FUSER_DEVICE listed_step
step_of_lane(const point_lists& lists, const listed_rows& own, int step) {
  const unsigned int all = 0xffffffffu;
  int of = 0;  // lanes whose rows end before
#pragma unroll
  for (int by = 16; by > 0; by /= 2) {
    if (__shfl_sync(all, own.end, of + by - 1) <= step) of += by;
  }
  const int end = __shfl_sync(all, own.end, of), steps = __shfl_sync(all, own.steps, of);
  const int first = __shfl_sync(all, own.first, of), count = __shfl_sync(all, own.count, of);
  const int number = step - (end - steps);
  const bool listed = step < end && number < count;
  const bool ends = own.cut == 0 && step == end - 1;
  return {of, listed ? part_at(lists.listed + first + number) : -1, ends};
}

//@ join_pieces: FUSER_DEVICE, store_vector, parts_at, copy_bytes
// Joins what the pieces of a row come to: 16 of them, the last warp to come with one has all, then
// 16 of these. Whether this warp has all of the row. `parts` and `joined` are of the row's
// first piece, at this warp's columns; those of the next are so many further.
template <int N, typename T, typename Join>
FUSER_DEVICE bool join_pieces(
    T (&sum)[N], T* parts, int* joined, int number, int count, long long columns, int chunks,
    bool exists, Join join) {
  constexpr int group = 16, moved = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
  int apart = 1;
  for (int level = 0; count > 1; ++level) {
    if (exists) store_vector(sum, parts + number * apart * columns);
    const int first = number / group * group;
    const int others = count - first < group ? count - first : group;
    if (others > 1) {
      __syncwarp();
      bool is_last = false;
      if (threadIdx.x == 0) {
        __threadfence();
        int* const came = joined + (first * apart + level) * chunks;
        is_last = atomicAdd(came, 1) == others - 1;
        if (is_last) *came = 0;
        __threadfence();
      }
      if (!__any_sync(0xffffffffu, is_last)) return false;
      __syncwarp();  // all see what the others left
#pragma unroll 4
      for (int other = 0; exists && other < others; ++other) {
        T given[N];
#pragma unroll
        for (int lane = 0; lane < N; lane += moved) {
          T some[moved];
          parts_at(some, parts + (first + other) * apart * columns + lane);
          copy_bytes<moved * sizeof(T)>(given + lane, some);
        }
#pragma unroll
        for (int lane = 0; lane < N; ++lane) {
          sum[lane] = other == 0 ? given[lane] : join(sum[lane], given[lane]);
        }
      }
    }
    number = first / group;
    count = (count + group - 1) / group;
    apart *= group;
  }
  return true;
}

//@ finish_lists: FUSER_DEVICE, point_lists, last_to_finish
// The last block leaves all numbers 0 that were.
FUSER_DEVICE void finish_lists(const point_lists& lists) {
  __shared__ bool is_last;
  if (!last_to_finish(&lists.state->finished, gridDim.x, &is_last)) return;
  if (threadIdx.x == 0 && threadIdx.y == 0) *lists.state = {};
}
