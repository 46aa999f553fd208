from fuser.schedule.cpu_parameters import CpuParameters


def test_parameters_say_what_they_are():
    assert "processor=ProcessorParameters(serial_work=" in str(CpuParameters())
