// Running sums and their kin for the threads of a team, whose lanes follow each other. All is joined
// in the type of the carry, which every thread has: what came before the lanes at hand.

//@ lane_below: FUSER_DEVICE
// The value of the lane whose number is lower by `by`, in lanes that have one.
template <typename T>
FUSER_DEVICE T lane_below(T value, int by) {
  if constexpr (sizeof(T) < 4) {
    return T(__shfl_up_sync(0xffffffffu, int(value), by));
  } else {
    return __shfl_up_sync(0xffffffffu, value, by);
  }
}

//@ lane_at: FUSER_DEVICE
// The value of a lane of the warp.
template <typename T>
FUSER_DEVICE T lane_at(T value, int lane) {
  if constexpr (sizeof(T) < 4) {
    return T(__shfl_sync(0xffffffffu, int(value), lane));
  } else {
    return __shfl_sync(0xffffffffu, value, lane);
  }
}

//@ turn_lanes: FUSER_DEVICE
// The lanes of a thread from the last to the first, in registers: no instruction does it.
template <int N, typename T>
FUSER_DEVICE void turn_lanes(T (&lanes)[N]) {
#pragma unroll
  for (int lane = 0; lane < N / 2; ++lane) {
    const T other = lanes[lane];
    lanes[lane] = lanes[N - 1 - lane];
    lanes[N - 1 - lane] = other;
  }
}

//@ scan_threads: FUSER_DEVICE, lane_below
// What the values of the threads of a warp up to this one join to, for the first `count` of them.
template <int count, typename T, typename Join>
FUSER_DEVICE T scan_threads(T value, Join join) {
#pragma unroll
  for (int by = 1; by < count; by *= 2) {
    const T before = lane_below(value, by);
    if (threadIdx.x % 32 >= by) value = join(before, value);
  }
  return value;
}

//@ scan_own: FUSER_DEVICE
// What the lanes of a thread come to, one by one.
template <int N, typename T, typename Carry, typename Join>
FUSER_DEVICE Carry scan_own(const T (&lanes)[N], Carry (&upto)[N], Join join) {
  upto[0] = Carry(lanes[0]);
#pragma unroll
  for (int lane = 1; lane < N; ++lane) upto[lane] = join(upto[lane - 1], Carry(lanes[lane]));
  return upto[N - 1];
}

//@ go_on: FUSER_DEVICE
// The lanes of a thread after what came before them.
template <int N, typename T, typename Carry, typename Join>
FUSER_DEVICE void go_on(T (&lanes)[N], const Carry (&upto)[N], Carry before, Join join) {
#pragma unroll
  for (int lane = 0; lane < N; ++lane) lanes[lane] = T(join(before, upto[lane]));
}

//@ scan_warp: FUSER_DEVICE, scan_threads, scan_own, go_on, lane_below, lane_at
template <int N, typename T, typename Carry, typename Join>
FUSER_DEVICE void scan_warp(T (&lanes)[N], Carry& carry, Join join) {
  Carry own[N];
  const Carry upto = scan_threads<32>(scan_own(lanes, own, join), join);
  const Carry before = lane_below(upto, 1);
  go_on(lanes, own, threadIdx.x % 32 == 0 ? carry : join(carry, before), join);
  carry = join(carry, lane_at(upto, 31));
}

//@ scan_block: FUSER_DEVICE, scan_threads, scan_own, go_on, lane_below, lane_at
// Along x. `shared` has room for one carry of each of `warps`; it may be used again at once.
template <int warps, int N, typename T, typename Carry, typename Join>
FUSER_DEVICE void scan_block(T (&lanes)[N], Carry& carry, Join join, void* shared) {
  Carry* const of_warp = static_cast<Carry*>(shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Carry own[N];
  const Carry upto = scan_threads<32>(scan_own(lanes, own, join), join);
  const Carry before = lane_below(upto, 1);
  if (lane == 31) of_warp[warp] = upto;
  __syncthreads();
  const Carry upto_warp = scan_threads<warps>(of_warp[lane % warps], join);
  const Carry before_warp = lane_at(upto_warp, (warp + 31) % 32);
  Carry first = warp == 0 ? carry : join(carry, before_warp);
  first = lane == 0 ? first : join(first, before);
  go_on(lanes, own, first, join);
  carry = join(carry, lane_at(upto_warp, warps - 1));
  __syncthreads();
}

//@ scan_column: FUSER_DEVICE, scan_own, go_on
// Along y, for every threadIdx.x of `width`; `shared` has room for one carry of each thread.
template <int height, int width, int N, typename T, typename Carry, typename Join>
FUSER_DEVICE void scan_column(T (&lanes)[N], Carry& carry, Join join, void* shared) {
  Carry* const of_thread = static_cast<Carry*>(shared) + threadIdx.x;
  Carry own[N];
  of_thread[threadIdx.y * width] = scan_own(lanes, own, join);
  __syncthreads();
  Carry before = carry;
#pragma unroll
  for (int y = 0; y < height; ++y) {
    if (y == threadIdx.y) before = carry;
    carry = join(carry, of_thread[y * width]);
  }
  __syncthreads();
  go_on(lanes, own, before, join);
}

//@ take_part: FUSER_DEVICE
// The number of this block's part of a row. Blocks take them in the order in which they start, so
// that one which waits for lower parts waits for blocks that run. Of a row, `shared_out` has how
// many parts are taken, how many blocks have waited, and then for each part whether it is ready.
FUSER_DEVICE int take_part(int* shared_out) {
  __shared__ int part;
  if (threadIdx.x == 0) part = atomicAdd(shared_out, 1);
  __syncthreads();
  return part;
}

//@ hand_on: FUSER_DEVICE
// Tells later parts that the totals of this one are written.
FUSER_DEVICE void hand_on(int* shared_out, int part) {
  if (threadIdx.x == 0) {
    __threadfence();
    atomicExch(shared_out + 2 + part, 1);
  }
}

//@ wait_for_parts: FUSER_DEVICE, number_now, pause_polling
// Waits until the totals of all parts before this one are written, and sees them. The last of the
// blocks that have waited leaves zeros for the next launch.
FUSER_DEVICE void wait_for_parts(int* shared_out, int part, int parts) {
  int* ready = shared_out + 2;
  __threadfence();
  for (int other = threadIdx.x; other < part; other += blockDim.x) {
    while (number_now(ready + other) == 0) pause_polling();
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x >= 32) return;
  bool is_last = false;
  if (threadIdx.x == 0) {
    __threadfence();  // for all: what a barrier has ordered before a fence, the fence orders, too
    is_last = atomicAdd(shared_out + 1, 1) == parts - 1;
    __threadfence();
  }
  if (!__shfl_sync(0xffffffffu, is_last, 0)) return;
  __syncwarp();  // orders memory, which a shuffle does not
  for (int at = threadIdx.x; at < 2 + parts; at += 32) shared_out[at] = 0;
}

//@ carry_to_part: FUSER_DEVICE, join_block, part_at
// What the parts before this one come to, in all threads; `none` is what joins to nothing.
template <int warps, typename Carry, typename Join>
FUSER_DEVICE Carry carry_to_part(const Carry* totals, int part, Carry none, Join join, void* shared) {
  Carry carry = none;
  for (int other = threadIdx.x; other < part; other += blockDim.x) {
    carry = join(carry, part_at(totals + other));
  }
  return join_block<warps>(carry, join, shared);
}
