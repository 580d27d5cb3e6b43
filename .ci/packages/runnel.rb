class Runnel < Formula
  desc "Serve commands as MCP tools whose output streams while they run"
  homepage "https://github.com/@REPOSITORY@"
  version "@VERSION@"
  license "MIT"

  on_macos do
    on_arm do
      url "https://github.com/@REPOSITORY@/releases/download/v@VERSION@/runnel-@VERSION@-darwin-arm64.tar.gz"
      sha256 "@DARWIN_ARM64@"
    end
    on_intel do
      url "https://github.com/@REPOSITORY@/releases/download/v@VERSION@/runnel-@VERSION@-darwin-amd64.tar.gz"
      sha256 "@DARWIN_AMD64@"
    end
  end
  on_linux do
    on_arm do
      url "https://github.com/@REPOSITORY@/releases/download/v@VERSION@/runnel-@VERSION@-linux-arm64.tar.gz"
      sha256 "@LINUX_ARM64@"
    end
    on_intel do
      url "https://github.com/@REPOSITORY@/releases/download/v@VERSION@/runnel-@VERSION@-linux-amd64.tar.gz"
      sha256 "@LINUX_AMD64@"
    end
  end

  def install
    bin.install "runnel"
    generate_completions_from_executable(bin/"runnel", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/runnel version")
  end
end
