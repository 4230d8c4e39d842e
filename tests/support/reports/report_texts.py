"""What the ranks of made-up reports say."""

FAILURE_MESSAGE = """rank 11 on gpu-node-23:
fully_shard_autograd.py:156: in test_nontensor_activations
    assert_close(sharded.grad.full_tensor(), reference.grad, rtol=1.6e-2, atol=1e-5)
E   AssertionError: Tensor-likes are not close!
E
E   Mismatched elements: 1 / 4096 (0.0%)
E   Greatest absolute difference: 131072.0 at index (63, 17) (up to 1e-05 allowed)
E   Greatest relative difference: 8191.9 at index (63, 17) (up to 0.016 allowed)"""
OTHER_FAILURE_MESSAGE = """fully_shard_autograd.py:158: in test_nontensor_activations
    assert torch.isfinite(loss)
E   assert tensor(False, device='cuda:4')"""
CRASH_MESSAGE = """rank 13 on gpu-node-23 was killed by SIGSEGV
Fatal Python error: Segmentation fault

Thread 0x00007f1c2e7fc6c0 (most recent call first):
  File "torch/_inductor/runtime/triton_heuristics.py", line 1290 in run
  File "torch/_inductor/output_code.py", line 613 in __call__
  File "replicate_compile.py", line 117 in test_compile"""
HANG_SENTENCE = (
    "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13 wait in all_reduce number 41 of the default group; rank 9 on "
    "gpu-node-23 has not joined it (its last was number 40): rank 9 is at load_batch (pipeline/line.py:88)"
)
STACK_OF_THE_CULPRIT = """Thread MainThread:
  File "pipeline/line.py", line 88, in load_batch
    batch = self.queue.get()
  File "queue.py", line 171, in get
    self.not_empty.wait()
  File "threading.py", line 327, in wait
    waiter.acquire()"""
STACK_OF_THE_WAITING = """Thread MainThread:
  File "pipeline/line.py", line 131, in step
    dist.all_reduce(self.loss)
  File "torch/distributed/c10d_logger.py", line 81, in wrapper
    return func(*args, **kwargs)
  File "torch/distributed/distributed_c10d.py", line 3002, in all_reduce
    work.wait()"""
NATIVE_STACK = """Thread 1187 (idle): "MainThread"
    futex_abstimed_wait_cancelable (libc.so.6)
    sem_clockwait (libc.so.6)
    acquire_timed (python3.13)
    wait (threading.py:327)
    get (queue.py:171)
    load_batch (pipeline/line.py:88)"""
RAS = """NCCL version 2.27.7 compiled with CUDA 13.0
Job summary
===========
  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          8            1         16       16
Errors
======
#0-0 (4b1c6e90) INCOMPLETE
  Rank 9 -- GPU 1 managed by process 1187 on node 10.0.3.23 has a lower AllReduce count (40) than the others (41)"""
FIXTURE_MESSAGE = """ranks 8-15 on gpu-node-23:
data_parallel.py:121: in mesh
    torch.cuda.set_device(gang.local_rank)
E   torch.AcceleratorError: CUDA error: out of memory"""
