# The formula for a tap. .ci/recipes puts the version, repository and hash of a release in, and after that
# `brew update-python-resources kseg` the packages that kseg requires.
class Kseg < Formula
  include Language::Python::Virtualenv

  desc "Segment forensics and repair for Apache Kafka logs, with no broker and no JVM"
  homepage "https://github.com/@REPOSITORY@"
  url "https://github.com/@REPOSITORY@/releases/download/v@VERSION@/kseg-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "python@3.14"

  def install
    ENV["KSEG_KERNEL"] = "compiled"
    virtualenv_install_with_resources
    man1.install Dir["man/*.1"]
    man3.install Dir["man/*.3"]
    man7.install Dir["man/*.7"]
    generate_completions_from_executable(bin/"kseg", shell_parameter_format: :click)
  end

  test do
    assert_match "compiled kernel", shell_output("#{bin}/kseg --version")
    (testpath/"00000000000000000000.log").write ""
    assert_match "0 errors", shell_output("#{bin}/kseg verify #{testpath}/00000000000000000000.log 2>&1")
  end
end
