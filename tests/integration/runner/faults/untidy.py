"""Cases that pass and leave something behind, which the next case must not meet."""

from tests.integration.runner.faults.fault import After, Fault

SECONDS = 2.5


def _leaves(name: str, source: str, *, seconds: float = SECONDS, words: tuple[str, ...] = ()) -> Fault:
    return Fault(
        name=name,
        source=source,
        outcome="passed",
        words=words,
        limit_seconds=seconds,
        after=After.NEXT_CASE,
    )


STATE = (
    _leaves("changed environment", "os.environ[MARK] = '1'\ndel os.environ['HOME']\nos.environ['RANK'] = '77'"),
    _leaves("changed directory", "os.chdir('/proc')"),
    _leaves("removed directory", "import tempfile\nos.chdir(tempfile.mkdtemp())\nos.rmdir(os.getcwd())"),
    _leaves("seeded random numbers", "draw()\ntorch.manual_seed(4711)\nnumpy.random.seed(1)\nrandom.seed(2)"),
    _leaves(
        "changed signal handlers and mask",
        "for n in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM): signal.signal(n, lambda *_: None)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})",
    ),
    _leaves("pending alarm", "signal.signal(signal.SIGALRM, signal.SIG_DFL)\nsignal.alarm(1)"),
    _leaves(
        "changed warning filters, module path, logging, recursion limit",
        "warnings.simplefilter('error')\nsys.path.insert(0, '/' + MARK)\n"
        "logging.disable(50)\nsys.setrecursionlimit(500)",
    ),
    _leaves(
        "changed default dtype, default device, gradient mode, threads",
        "torch.set_default_dtype(torch.float64)\ntorch.set_default_device('meta')\ntorch.set_grad_enabled(False)\n"
        "torch.set_num_threads(3)",
    ),
    _leaves("changed umask", "os.umask(0)"),
    _leaves("closed sys.stdout", "sys.stdout.close()\nsys.stdout = None"),
    _leaves("closed output", "os.close(1)\nos.close(2)"),
    _leaves(
        "output replaced by a file",
        "os.close(1)\nglobal KEPT\nKEPT = open(os.devnull)\nassert KEPT.fileno() == 1",
    ),
    _leaves(
        "100 MB written to stdout",
        "if gang.rank == 1:\n    for _ in range(100): sys.stdout.write(('z' * 127 + '\\n') * 8192)",
        seconds=12,
    ),
    _leaves("10 MB without a newline", "if gang.rank == 2: os.write(1, b'\\xff' * (10 << 20))", seconds=12),
)  # fmt: skip  # a row reads as a sentence

PROCESSES = (
    _leaves("forked child that returns from the test", "add()\nif gang.rank == 1: os.fork()"),
    _leaves(
        "process that does not end",
        "KEPT = subprocess.Popen(['sleep', '1000.5'], start_new_session=True) if gang.rank != 2 else None",
    ),
)

GROUPS = (
    _leaves("destroyed process group", "dist.destroy_process_group()"),
    _leaves("process group destroyed on one rank", "add()\nif gang.rank == 1: dist.destroy_process_group()"),
    _leaves(
        "replaced process group",
        "dist.destroy_process_group()\ndist.init_process_group('gloo')\nassert add() == 4",
    ),
    _leaves("additional process groups", "for _ in range(3): assert add(dist.new_group([0, 1, 2, 3])) == 4"),
    _leaves(
        "different number of groups on each rank",
        "for _ in range(gang.rank): dist.distributed_c10d._process_group_name([gang.rank], use_hashed_name=False)",
    ),
)
UNTIDY = STATE + PROCESSES + GROUPS
