from fuser.schedule.cuda_parameters import CudaParameters, CudaRowParameters


def test_parameters_say_what_they_are():
    assert "max_lane_bytes=32" in str(CudaParameters())


def test_a_gpu_runs_threads_on_all_of_its_multiprocessors():
    assert CudaRowParameters.of("sm_80").resident == 108 * 1024
    assert CudaRowParameters.of("sm_90a").resident == 132 * 1024
    assert CudaRowParameters.of("sm_90", multiprocessors=114).resident == 114 * 1024
